# Checkpoints of any layout load under any other, and one whose data are damaged is
# passed over by all ranks. RESHARD=560 for all pairs of tools/reshard.
# deadline: 1800
set -eu
. tests/script_begin

TUTTI="$TUTTI" tools/reshard --pairs "${RESHARD:-6}"

# train RUN STOP RANKS SETTINGS... - what it says goes to a file.
train() {
    run=$folder/$1 stop=$2 ranks=$3
    shift 3
    "$TUTTI" train examples/gpt-tiny.yaml run="$run" train.steps=6 \
        train.stop="$stop" checkpoint.every=2 threads=1 precision=fp64 \
        log.every=1 -n "$ranks" "$@" >"$folder/out" 2>&1 ||
        die "$(cat "$folder/out")"
}

# flip RUN STEP FILE - changes a bit of the last byte.
flip() {
    python3 - "$folder/$1/checkpoints/step-0000000$2/$3" <<'END'
import sys
with open(sys.argv[1], "r+b") as file:
    file.seek(-1, 2)
    byte = file.read(1)[0]
    file.seek(-1, 2)
    file.write(bytes([byte ^ 1]))
END
}

said() {
    grep -q "$1" "$folder/out" || die "not said: $1: $(cat "$folder/out")"
}

same() {
    for file in model optim; do
        cmp "$folder/$1/checkpoints/step-00000006/$file.safetensors" \
            "$folder/$2/checkpoints/step-00000006/$file.safetensors" ||
            die "$file of $1 and $2 differ"
    done
}

train whole 0 2
train hurt 4 2
flip hurt 4 optim.safetensors
train hurt 0 2
said 'step-00000004 is not used: .* is damaged: its sum is wrong'
said 'resumed at 2'
same hurt whole

# Rank 0 may not hold all of it at once: one tensor after the other, the same bytes.
train held 0 2 zero=3
train streamed 0 2 zero=3 checkpoint.memory=1
same streamed held
train streamed-tensor 0 2 mesh.tensor=2 checkpoint.memory=1
train held-tensor 0 2 mesh.tensor=2
same streamed-tensor held-tensor

# All are damaged: all ranks end with one sentence, and nothing is begun again unasked.
train gone 4 2 mesh.tensor=2
flip gone 2 model.safetensors
flip gone 4 model.safetensors
status=0
(train gone 0 2) >"$folder/refused" || status=$?
[ $status -ne 0 ] || die 'began again beside damaged checkpoints'
said 'none of its checkpoints can be used'
said 'step-00000004 is not used: .* is damaged: its sum is wrong'
[ -d "$folder/gone/checkpoints/step-00000004" ] || die 'a suspect is gone'
train gone 0 2 --fresh
same gone whole
