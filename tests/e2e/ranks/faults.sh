# Ranks that are killed, stopped, set up differently or find no shared memory: the job
# ends in time, says who and why, leaves nothing and goes on afterwards. FAULTS=100 for
# a longer look.
# deadline: 1500
set -eu
command -v python3 >/dev/null || {
    echo 'there is no python3'
    exit 77
}
tools/faults --trials "${FAULTS:-5}" --seed "${FAULTS_SEED:-1}" 2>/dev/null
tools/faults --workers --trials "${FAULTS:-2}" --seed "${FAULTS_SEED:-1}" 2>/dev/null
