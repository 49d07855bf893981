# Ranks that see other data under the same path train nothing: one sentence names the
# rank, the file and what to do, at the first start, at a later one, and in eval.
# deadline: 120
set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tutti=$(realpath "$TUTTI")
export XDG_STATE_HOME=$folder/state XDG_CACHE_HOME=$folder/cache
cd "$folder" || exit 1

fail() {
    echo "$1"
    exit 1
}

# Each of three ranks in a folder of its own: run, the folder of the run, lies in all.
job=0
ranks() {
    job=$((job + 1))
    for rank in 2 1 0; do
        (cd "at$rank" && exec env TUTTI_JOB="data-ranks-$$-$job" TUTTI_RANK=$rank \
            TUTTI_WORLD_SIZE=3 TUTTI_LOCAL_RANK=$rank TUTTI_LOCAL_WORLD_SIZE=3 \
            timeout 60 "$tutti" "$@" threads=1 >"../out$rank" 2>"../err$rank") &
        pids[rank]=$!
    done
    for rank in 0 1 2; do
        wait "${pids[rank]}"
        status[rank]=$?
    done
    cat err0 err1 err2 >err
}

# refuses PATTERN ARGUMENTS...
refuses() {
    pattern=$1
    shift
    ranks "$@"
    for rank in 0 1 2; do
        [ "${status[rank]}" -eq 2 ] || fail "$*: ${status[*]}: $(cat err)"
    done
    grep -Eq "^tutti: rank 1 has other data than rank 0: $pattern; all ranks must" err ||
        fail "$*: no \"$pattern\": $(cat err)"
    [ "$(wc -l <err)" -eq 1 ] || fail "$*: more than a line: $(cat err)"
}

trains() {
    ranks "$@"
    [ "${status[*]}" = "0 0 0" ] || fail "$*: ${status[*]}: $(cat err)"
}

mkdir at0 at1 at2
for rank in 0 1 2; do
    seq 500 >at$rank/words.txt
    mkdir at$rank/texts
    cp at$rank/words.txt at$rank/texts/a.txt
    cp at$rank/words.txt at$rank/texts/b.txt
    seq 100 140 >at$rank/val.txt
done
gpt=(model=gpt model.layers=1 model.heads=2 model.width=16 model.context=8 batch=6
    train.steps=4)
text=(data=text data.path=words.txt)

# A byte; the length; a vocabulary, which is no matter of settings.
sed -i 's/^77$/78/' at1/words.txt
refuses 'words.txt has other contents there, though the same length' \
    train "${gpt[@]}" "${text[@]}" run=never
echo 501 >>at1/words.txt
refuses 'words.txt has 1896 bytes there and 1892 here' \
    train "${gpt[@]}" "${text[@]}" run=never
echo words >at1/words.txt
refuses 'words.txt has 6 bytes there and 1892 here' \
    train "${gpt[@]}" "${text[@]}" run=never data.holdout=0 model.context=2
[ ! -e at0/never ] || fail 'a run that never began left a folder'

# A run that stood still; what was there stays.
cp -p at0/words.txt at1/words.txt
trains train "${gpt[@]}" "${text[@]}" run=stood train.stop=2
sed -i 's/^77$/78/' at1/words.txt
cp -r at0/stood before
refuses 'words.txt has other contents there, though the same length' \
    train "${gpt[@]}" "${text[@]}" run=stood
refuses 'words.txt has other contents there, though the same length' \
    train "${gpt[@]}" "${text[@]}" run=stood --fresh
diff -r before at0/stood || fail 'the run was touched'
# Times are nobody's contents.
cp at0/words.txt at1/words.txt
touch -d 2001-01-01 at1/words.txt
trains train "${gpt[@]}" "${text[@]}" run=stood
[ -d at0/stood/checkpoints/step-00000004 ] || fail 'it did not go on'

# Files of a folder, on one side and on the other; validation.
rm at1/texts/b.txt
refuses 'texts/b.txt is among them here and not there' \
    train "${gpt[@]}" data=text data.path=texts run=never
cp at0/words.txt at1/texts/b.txt
cp at0/words.txt at1/texts/c.txt
refuses 'texts/c.txt is among them there and not here' \
    train "${gpt[@]}" data=text data.path=texts run=never
sed -i 's/^101$/102/' at1/val.txt
refuses 'val.txt has other contents there, though the same length' \
    train "${gpt[@]}" "${text[@]}" data.val=val.txt run=never

# eval, whose ranks share the work.
for rank in 1 2; do
    rm -rf at$rank/stood
    cp -r at0/stood at$rank/stood
done
trains eval stood "${text[@]}"
sed -i 's/^77$/78/' at1/words.txt
refuses 'words.txt has other contents there, though the same length' \
    eval stood "${text[@]}"
exit 0
