# Completion in the shells that are here: commands, flags, settings, values, files.
# deadline: 60
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tutti=$(realpath "$TUTTI")

die() {
    echo "$1"
    exit 1
}

for shell in bash zsh fish; do
    "$tutti" completion $shell >"$folder/$shell" || die "tutti completion $shell"
done
cd "$folder"
: >file.yaml

# completes WORDS - TEXT: what bash offers for the last of the words, one a line.
bash -n bash
complete() {
    bash -c '. ./bash
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
        _tutti 2>/dev/null
        printf "%s\n" "${COMPREPLY[@]}"' bash "$@"
}
offers() {
    wanted=$1
    shift
    complete "$@" | grep -qxF -- "$wanted" ||
        die "$*: $wanted is not offered: $(complete "$@" | head -n 20)"
}
offers train tutti tr
offers version tutti ver
offers --memory tutti plan --m
offers -n tutti train -
offers --help tutti doctor --
offers optim.schedule= tutti train optim.sch
offers model.kv_heads= tutti train examples/llama.yaml model.kv
offers cosine tutti train optim.schedule = co
offers wsd tutti train optim.schedule =
offers true tutti train exact = t
offers resnet18 tutti train model = res
offers adamw tutti train optim = ad
offers cuda tutti plan device = c
offers settings tutti list set
offers tokenize tutti data tok
offers compare tutti runs com
offers train tutti help tr
offers file.yaml tutti train fi
[ "$(complete tutti xyzzy)" = '' ] || die 'something for xyzzy'
# Every command and every setting, by itself.
for command in $("$tutti" list commands | awk '{print $1}'); do
    offers "$command" tutti "$command"
done
keys=$(complete tutti train '')
"$tutti" list settings | awk '{print $1 "="}' | sort -u | while read -r key; do
    echo "$keys" | grep -qxF -- "$key" || die "$key is not offered"
done

# As bash itself calls it.
bash -c '. ./bash; complete -p tutti' | grep -q -- '-F _tutti tutti' ||
    die 'bash does not know it'
if command -v zsh >/dev/null; then
    zsh -n zsh || die 'zsh does not read it'
    zsh -fc '. ./zsh >/dev/null 2>&1; _tutti_values optim.schedule' 2>/dev/null |
        grep -q cosine || die 'zsh: no values'
fi
if command -v fish >/dev/null; then
    fish -c 'source fish; complete -C "tutti tr"' | grep -q '^train' ||
        die 'fish: no command'
    fish -c 'source fish; complete -C "tutti train optim.sch"' |
        grep -q '^optim.schedule=cosine' || die 'fish: no setting'
fi
