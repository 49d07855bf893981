# The man page speaks of every command, setting and flag; docs/settings.md is what the
# program's tables say; what README.md, ARCHITECTURE.md and docs/ point to is there.
set -eu
page=docs/tutti.1.scd

# names TEXT - the man page has it.
names() {
    grep -qF -- "$1" "$page" || {
        echo "$page does not speak of $1"
        exit 1
    }
}

for command in $("$TUTTI" list commands | awk '{print $1}'); do
    names "*tutti $command"
    for flag in $("$TUTTI" "$command" --help | awk '/^  -/ {print $1}'); do
        names "$flag"
    done
done
"$TUTTI" list settings | while read -r name fallback _; do
    names "_${name}_ ($fallback)"
done
for kind in $("$TUTTI" list | awk '{print $3}'); do
    names "$kind"
done

made=$(python3 tools/settings_page.py "$TUTTI")
[ "$made" = "$(cat docs/settings.md)" ] || {
    echo "docs/settings.md is not what the program's tables say: run make docs"
    exit 1
}

grep -oE '`(src|tools|docs|tests|examples|include)/[A-Za-z0-9_./-]+`' \
    ARCHITECTURE.md README.md docs/*.md | cut -d: -f2 | tr -d '`' |
    grep -vE 'NAME|FOLDER|FAMILY' | while read -r path; do
    [ -e "$path" ] || {
        echo "$path is mentioned but not there"
        exit 1
    }
done
# Links of a page are relative to it.
for text in README.md ARCHITECTURE.md docs/*.md; do
    grep -oE '\]\([^)#]+' "$text" | cut -c3- | grep -v '^http' |
        while read -r link; do
            [ -e "$(dirname "$text")/$link" ] || {
                echo "$text: there is no $link"
                exit 1
            }
        done || exit 1
done
for folder in src/*/; do
    grep -q "^| \`$(basename "$folder")\`" ARCHITECTURE.md || {
        echo "ARCHITECTURE.md does not speak of $folder"
        exit 1
    }
done
