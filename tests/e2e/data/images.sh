# Training on images: folders and shards of them, of several sizes and kinds, and
# what is said when one of them is not right.
set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tutti=$(realpath "$TUTTI")
corpus=$(realpath tests/fuzz/corpus)
cd "$folder" || exit 1

fail() {
    echo "$1"
    exit 1
}

for class in ant bee; do
    mkdir -p "pictures/train/$class" "pictures/val/$class"
    for i in 1 2 3 4; do
        cp "$corpus/jpeg/rgb-420" "pictures/train/$class/$i.jpg"
        cp "$corpus/png/palette$((i == 3 ? 8 : i))" \
            "pictures/train/$class/$i.png"
    done
    cp "$corpus/jpeg/gray" "$corpus/jpeg/cmyk" "pictures/val/$class"
    for kind in gray cmyk; do
        mv "pictures/val/$class/$kind" "pictures/val/$class/$kind.JPEG"
    done
done

# The same pictures as shards.
mkdir flat
for class in ant bee; do
    for file in pictures/train/$class/*; do
        name=$(basename "$file")
        key=$class-${name%.*}-${name#*.}
        cp "$file" "flat/$key.${name#*.}"
        [ $class = ant ] && echo 0 >"flat/$key.cls" || echo 1 >"flat/$key.cls"
    done
done
(cd flat && tar --sort=name --format=pax -cf ../shard-0.tar ant* &&
    tar --sort=name --format=gnu -cf ../shard-1.tar bee*)

small='model=mlp model.width=8 image=8 batch=4 threads=1 train.steps=6 log.every=3'

# trains RUN WORD... - to the end, with an accuracy on the validation data.
trains() {
    run=$1
    shift
    # shellcheck disable=SC2086
    "$tutti" train $small run="$run" "$@" >out 2>err ||
        fail "train $*: $(cat err)"
    "$tutti" eval "$run" >out 2>err || fail "eval $run: $(cat err)"
    grep -qi accuracy out || fail "eval $run says no accuracy: $(cat out)"
}
trains a data=folder data.path=pictures data.resize=random data.flip=true
trains b data=folder data.path=pictures/train data.resize=fit \
    data.holdout=0.25 data.mean=0.5,0.4,0.3 data.std=0.25
trains c data=webdataset data.path='shard-*.tar' data.resize=fit \
    data.resize_to=9 data.pad=1
trains d data=webdataset data.path='shard-{0..1}.tar' data.val=shard-1.tar \
    data.resize=random model.channels=1

# refuses TEXT WORD... - exit status 2, and the text on stderr.
refuses() {
    text=$1
    shift
    # shellcheck disable=SC2086
    "$tutti" train $small run=none "$@" >out 2>err
    status=$?
    [ $status -eq 2 ] || fail "train $*: exit status $status, not 2"
    grep -qF -- "$text" err || fail "train $*: should say: $text; $(cat err)"
}
refuses 'set data.resize to fit or random' data=folder data.path=pictures
refuses 'leave one of them out' data=folder data.path=pictures data.pad=2 \
    data.resize=random
refuses 'is not one of none|fit|random' data=folder data.path=pictures data.resize=randon
head -c 300 "$corpus/jpeg/rgb-420" >pictures/train/bee/3.jpg
refuses 'pictures/train/bee/3.jpg: the JPEG is damaged' data=folder \
    data.path=pictures data.resize=fit
printf 'x' | dd of=shard-1.tar bs=1 seek=1030 conv=notrunc 2>/dev/null
refuses 'shard-1.tar: the tar header at byte 1024 has a wrong checksum' \
    data=webdataset data.path=. data.resize=fit

# Other kinds of images are read too, and what is not read is counted: in the header
# of the run, in its log, and by inspect.
mkdir -p kinds/ant kinds/bee
for class in ant bee; do
    cp "$corpus/bmp/rgb24" kinds/$class/1.bmp
    cp "$corpus/gif/plain" kinds/$class/2.gif
    cp "$corpus/pnm/p6" kinds/$class/3.ppm
    : >kinds/$class/4.webp
done
: >kinds/bee/5.tif
left='kinds: 3 files are left out: 2 .webp, 1 .tif'
"$tutti" train model=mlp model.layers=1 model.width=4 data=folder \
    data.path=kinds data.holdout=0 data.resize=fit image=8 batch=2 \
    train.steps=2 threads=1 run=kinds-run >out 2>&1 || fail "$(cat out)"
grep -q "$left" out || fail "the run does not say: $left"
grep -q "$left" kinds-run/log.txt || fail "its log does not say: $left"
"$tutti" data inspect kinds >out 2>&1 || fail "$(cat out)"
grep -q "$left" out || fail "inspect does not say: $left"
grep -q 'images     6' out || fail "inspect does not count: $(cat out)"
