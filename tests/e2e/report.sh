# A run leaves a report that needs nothing else; it can be written again, also
# when some of its sources are missing or damaged.
# deadline: 120
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export XDG_STATE_HOME="$folder"
run="$folder/a <b> & 'c'"

die() {
    echo "$1"
    exit 1
}

# fails WANTED WORD... - one sentence, exit status 2.
fails() {
    wanted=$1
    shift
    status=0
    "$TUTTI" "$@" >"$folder/out" 2>"$folder/err" || status=$?
    [ $status -eq 2 ] && grep -q "$wanted" "$folder/err" ||
        die "tutti $*: exit $status, $(cat "$folder/err")"
    [ "$(wc -l <"$folder/err")" -eq 1 ] || die "tutti $*: more than a line"
}

"$TUTTI" train examples/mlp-tiny.yaml run="$run" threads=1 eval.every=10 \
    >"$folder/out"
page=$run/report.html
[ -s "$page" ] || die 'training leaves no report'
for text in '<svg' 'a &lt;b&gt; &amp; &#39;c&#39;' 'Learning rate' 'mlp' \
    'best validation accuracy' 'prefers-color-scheme' '>done<'; do
    grep -qF "$text" "$page" || die "the report has no $text"
done
if grep -qE 'http|<script|<link|src=|@import|url\(' "$page"; then
    die 'the report asks for something from elsewhere'
fi
if command -v python3 >/dev/null; then
    python3 - "$page" <<'P' || die 'the tags of the report do not match'
import html.parser, sys
class Tags(html.parser.HTMLParser):
    open = []
    def handle_starttag(self, tag, attributes):
        if tag not in ("meta", "br"):
            self.open.append(tag)
    def handle_startendtag(self, tag, attributes):
        pass
    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, (tag, self.open, self.getpos())
        self.open.pop()
tags = Tags()
tags.feed(open(sys.argv[1], encoding="utf-8").read())
assert not tags.open, tags.open
P
fi

cp "$page" "$folder/before"
rm "$page"
[ "$("$TUTTI" report "$run")" = "$page" ] || die 'what tutti report prints'
cmp -s "$page" "$folder/before" || die 'the report is not the same again'

printf '{"step": 30, "train/lo' >>"$run/metrics.jsonl"
rm "$run/facts.json" "$run/config.yaml"
"$TUTTI" report "$run" --json | grep -q '"report":' || die 'report --json'
grep -q '<svg' "$page" || die 'a report without facts has no curves'

fails 'which run' report
fails 'no folder' report "$folder/missing"
fails 'metrics.jsonl' report "$folder"
