# tutti data: a tokenizer is learned, text becomes token files in every format, these
# become each other, and all of them are recognised.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tutti=$(realpath "$TUTTI")
cd "$folder"

fail() {
    echo "$1"
    exit 1
}

# holds FILE TEXT - stands in it.
holds() {
    grep -qF -- "$2" "$1" || {
        echo "$1 does not say: $2"
        cat "$1"
        exit 1
    }
}

i=0
while [ $i -lt 200 ]; do
    printf "It's line %d: the cat sat on the mat; na\\303\\257ve don't.\\n" $i
    i=$((i + 1))
done >a.txt
printf 'the second file has no end' >b.txt

"$tutti" data train-bpe a.txt b.txt vocab=300 out=bpe >out
holds out 'bpe: 300 tokens'
for name in tokenizer.json vocab.json merges.txt; do
    [ -s "bpe/$name" ] || fail "there is no bpe/$name"
done
"$tutti" data inspect bpe bpe/vocab.json >out
holds out 'vocab      300'

# Both ways to write a tokenizer give the same tokens, and so does every format.
mkdir gpt2
cp bpe/vocab.json bpe/merges.txt gpt2
"$tutti" data tokenize a.txt b.txt tokenizer=bpe out=x >out
"$tutti" data tokenize a.txt b.txt tokenizer=gpt2 out=y --json >out
holds out '"vocab": 300'
cmp x_train.bin y_train.bin
cmp x_val.bin y_val.bin
for format in nanogpt megatron npy llmc; do
    "$tutti" data tokenize a.txt b.txt tokenizer=bpe out=$format/ \
        format=$format shard=700 >out
    case $format in
    npy) files=$(echo $format/train*.npy) ;;
    *) files=$(echo $format/train*.bin) ;;
    esac
    rm -f new/packed*
    "$tutti" data pack $files out=new/packed vocab=300 >out
    cmp new/packed.bin x_train.bin || fail "$format is not the same"
done
[ "$(ls llmc/train_*.bin | wc -l)" -gt 1 ] || fail 'there are no shards'
[ -z "$(find . -name '.tmp*')" ] || fail 'temporary files are left'

"$tutti" data inspect x_val.bin tokenizer=bpe >out
holds out 'llm.c tokens, uint16'
holds out 'text'
"$tutti" data inspect nanogpt/val.bin megatron/train.bin megatron/train.idx \
    npy/val.npy a.txt --json >out
holds out '"format": "Megatron tokens"'
holds out '"format": "NumPy array", "dtype": "uint16"'
holds out '"lines": 200'

# A model trained from token files takes their tokenizer along: it samples as text,
# and its export has the same tokenizer.
sizes='model=gpt model.layers=1 model.width=16 model.heads=2 batch=2 seq=16'
"$tutti" data tokenize a.txt b.txt tokenizer=bpe out=m format=megatron >out
"$tutti" data tokenize a.txt b.txt tokenizer=bpe out=n format=npy >out
for data in 'tokens x_train.bin x_val.bin' 'tokens nanogpt/train*.bin nanogpt/val*.bin' \
    'megatron m_train m_val' 'npy n_train.npy n_val.npy'; do
    set -f
    set -- $data
    set +f
    "$tutti" train $sizes train.steps=2 "data=$1" "data.path=$2" "data.val=$3" \
        run=run >out 2>&1 || { cat out; fail "no training from $2"; }
    "$tutti" sample run prompt='the cat' tokens=20 >text 2>&1 || { cat text; fail "no sample of $2"; }
    holds text 'the cat'
    if grep -qE 'cat( [0-9]+){20}' text; then fail "samples of $2 are ids"; fi
    "$tutti" export run out=exported >out
    cmp exported/tokenizer.json x_tokenizer.json || fail 'another tokenizer is exported'
    rm -rf run exported
done

# The end of one file, no holdout, characters, empty files.
: >empty.txt
"$tutti" data tokenize a.txt empty.txt b.txt tokenizer=chars out=c holdout=0 >out
[ ! -e c_val.bin ] || fail 'there is a c_val.bin'
n=$(cat a.txt b.txt | LC_ALL=C.UTF-8 wc -m)
[ "$(wc -c <c_train.bin)" -eq $((1024 + 2 * n)) ] || fail 'characters are lost'
"$tutti" data tokenize a.txt tokenizer=c_tokenizer.json out=d holdout=0 >out
[ "$(wc -c <d_train.bin)" -eq $((1024 + 2 * $(LC_ALL=C.UTF-8 wc -m <a.txt))) ] ||
    fail 'a saved tokenizer of characters is another one'
printf '\000\0020\377' >bytes.txt
"$tutti" data tokenize bytes.txt tokenizer=bytes out=e format=nanogpt holdout=0 >out
[ "$(od -An -tu2 e_train.bin | xargs)" = '0 2 48 255' ] || fail 'bytes are lost'

# Lines of JSON, packed or not, give the tokens of their texts.
sed 's/"/\\"/g; s/.*/{"n": 1, "body": "&"}/' a.txt >lines.jsonl
gzip -k lines.jsonl
"$tutti" data tokenize a.txt tokenizer=bytes out=plain holdout=0 >out
"$tutti" data tokenize lines.jsonl field=body tokenizer=bytes out=lines \
    holdout=0 >out
cmp plain_train.bin lines_train.bin
"$tutti" data tokenize lines.jsonl.gz field=body tokenizer=bytes out=packed \
    holdout=0 >out
cmp plain_train.bin packed_train.bin
"$tutti" data tokenize lines.jsonl field=body tokenizer=bpe out=ended \
    format=megatron holdout=0 >out
"$tutti" data inspect ended_train.idx lines.jsonl field=body >out
holds out 'documents  200'
"$tutti" data inspect empty.txt >out
holds out 'empty.txt: empty'
"$tutti" data inspect lines.jsonl.gz field=body --json >out
holds out '"documents": 200'

# refuses TEXT WORD... - exit status 2 and one line that holds the text.
refuses() {
    text=$1
    shift
    status=0
    "$tutti" "$@" >out 2>err || status=$?
    [ $status -eq 2 ] || fail "$*: exit status $status"
    [ ! -s out ] || fail "$*: something is on stdout"
    [ "$(wc -l <err)" -eq 1 ] || fail "$*: not one line"
    holds err "$text"
}
refuses 'train-bpe, tokenize, pack or inspect' data
refuses 'did you mean tokenize' data tokenise
refuses 'which text' data tokenize tokenizer=bytes out=z
refuses 'x_train.bin is there already' data tokenize a.txt tokenizer=bytes out=x
refuses 'new/packed.bin is there already' data pack x_train.bin out=new/packed
refuses 'bpe/tokenizer.json is there already' data train-bpe a.txt vocab=300 out=bpe
seq 1 400 >numbers.txt
printf 'ab' >>numbers.txt
head -c 1000 numbers.txt >even.txt
refuses 'this is text, not token ids' train data=tokens data.path=even.txt \
    train.steps=1 run=z
refuses 'tokenizer=SPEC' data tokenize a.txt out=z
refuses 'out=PREFIX' data tokenize a.txt tokenizer=bytes
refuses 'did you mean "format"' data tokenize a.txt formt=npy
refuses 'no such tokenizer' data tokenize a.txt tokenizer=none out=z
refuses 'bytes.txt: byte 3 (line 1) of the text, 0xff, is not UTF-8' \
    data tokenize bytes.txt tokenizer=chars out=z
refuses 'is not one of those the tokenizer has' \
    data tokenize bytes.txt tokenizer=c_tokenizer.json out=z
refuses 'it is empty' data tokenize empty.txt tokenizer=bytes out=z
refuses 'none.txt' data tokenize none.txt tokenizer=bytes out=z
refuses 'no file of tokens: it is text' data pack a.txt out=z
refuses 'but the vocabulary has 3' data pack x_train.bin out=z vocab=3
refuses 'a vocabulary of 256 is not possible' \
    data train-bpe a.txt vocab=256 out=z
refuses 'the split pattern' data train-bpe a.txt 'pattern=(' out=z
printf 'PAR1 and so on' >table.parquet
refuses 'pandas.read_parquet' data tokenize table.parquet tokenizer=bytes out=z
refuses 'lines.jsonl: line 1 has no "text"; set data.field to one of its' \
    data tokenize lines.jsonl tokenizer=bytes out=z
head -c 2000 x_train.bin >torn.bin
refuses 'torn.bin' data inspect torn.bin
[ -z "$(find . -name '.tmp*' -o -name 'z*')" ] || fail 'something is left'
