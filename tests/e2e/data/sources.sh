# A model learns from every kind of file, and files that are wrong are refused with
# status 2, their name and what is wrong with them.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tutti=$(realpath "$TUTTI")
cd "$folder"

die() {
    echo "$*"
    cat out
    exit 1
}

# trains SETTINGS... - two steps and an evaluation.
trains() {
    rm -rf run
    "$tutti" train "$@" train.steps=2 batch=4 threads=1 run=run >out 2>&1 ||
        die "train $*"
}

# refuses WORDS SETTINGS...
refuses() {
    words=$1
    shift
    rm -rf run
    status=0
    "$tutti" train "$@" train.steps=2 batch=4 threads=1 run=run >out 2>&1 ||
        status=$?
    [ $status -eq 2 ] || die "train $*: status $status"
    grep -q -- "$words" out || die "train $*: should say: $words"
}

gpt='model=gpt model.layers=1 model.width=8 model.heads=1 seq=4'
mlp='model=mlp model.layers=1 model.width=8'

printf 'to be or not to be that is the question, %.0s' 1 2 3 4 >text.txt
gzip -c text.txt >text.txt.gz
printf '{"text": "to be"}\n%.0s' 1 2 3 4 5 6 7 8 9 10 >lines.jsonl
sed 's/text/body/' lines.jsonl >lines.ndjson
printf 'PAR1 and so on' >text.parquet
printf 'x,y,kind\n' >table.csv
for i in 1 2 3 4 5 6 7 8; do
    printf '%s,%s,cat\n%s.5,-%s,dog\n' $i $i $i $i >>table.csv
done
i=0
while [ $i -lt 40 ]; do
    printf '%b' "\\0$(printf %o $((i % 9)))\\0000" >>train.bin
    i=$((i + 1))
done
printf '\0\0\010\003\0\0\0\012\0\0\0\003\0\0\0\003' >images
printf '%090d' 0 >>images
printf '\0\0\010\001\0\0\0\012\0\001\002\0\001\002\0\001\002\0' >labels
gzip -k images

# shellcheck disable=SC2086
{
    trains $gpt data=text data.path=text.txt
    trains $gpt data=text 'data.path=te*.txt' data.tokenizer=bytes data.holdout=0.2
    trains $gpt data=text data.path=text.txt.gz
    trains $gpt data=text data.path=lines.jsonl
    trains $gpt data=text 'data.path=*.ndjson' data.field=body
    trains $gpt data=tokens data.path=train.bin data.holdout=0.2
    trains $gpt data=synthetic
    trains $mlp data=csv data.path=table.csv
    trains $mlp data=idx data.path=images
    trains $mlp data=idx data.path=images.gz
    trains $mlp data=synthetic image=6

    refuses 'none.txt: No such file' $gpt data=text data.path=none.txt
    refuses 'its format is Parquet' $gpt data=text data.path=text.parquet
    refuses 'line 1 has no "text"' $gpt data=text data.path=lines.ndjson
    refuses 'did you mean text' $gpt data=txt
    refuses 'data.path is not set' $gpt data=text
    refuses 'seq=4 needs 5' $gpt data=tokens data.path=train.bin
    refuses 'vocabulary of 5 does not have' $gpt data=tokens \
        data.path=train.bin data.holdout=0 model.vocab=5
    refuses 'learns from images' $mlp data=text data.path=text.txt
    printf '9,z,cat\n' >>table.csv
    refuses 'table.csv: row 18, column 2 (y): "z" is not a number' $mlp \
        data=csv data.path=table.csv
    truncate -s -1 images
    refuses 'damaged or cut short' $mlp data=idx data.path=images
    truncate -s -9 images.gz
    refuses 'images.gz: damaged' $mlp data=idx data.path=images.gz
}
