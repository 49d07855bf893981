# Each of the project's own checks finds what it is there to find, and says
# nothing about a tree in order.
set -eu
command -v python3 >/dev/null || {
    echo "python3 is not installed"
    exit 77
}
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
cp -r tools "$tree/"
cd "$tree"
mkdir -p src/base src/ops

# finds CHECK TEXT - the check fails and its output has the text.
finds() {
    if python3 "tools/check_$1.py" >out 2>&1 || ! grep -qF "$2" out; then
        echo "check_$1 should have said: $2"
        cat out
        exit 1
    fi
}

passes() {
    python3 "tools/check_$1.py"
}

printf 'int tt_zero(void);\n' >src/base/zero.h
printf '#include "base/zero.h"\nconst tt_op_def tt_op_gelu = {0};\n' >src/ops/gelu.c
printf 'TT_OP(gelu)\n' >src/ops/list.h
for name in layers lists size banned names docs; do
    passes "$name"
done

printf '#include "ops/list.h"\n' >src/base/up.c
finds layers 'src/base/up.c:1: base/ may not include ops/'
printf '#include <oneapi/dnnl/dnnl.h>\n' >src/base/up.c
finds layers '<oneapi/dnnl/dnnl.h> belongs in backend/cpu'
mkdir src/odd
printf '#include "base/zero.h"\n' >src/odd/x.c
finds layers 'odd/ is not in tools/layers.txt'
rm -r src/odd src/base/up.c

printf 'const tt_op_def tt_op_relu = {0};\n' >src/ops/relu.c
finds lists 'tt_op_relu has no line TT_OP(relu)'
printf 'TT_OP(gelu)\nTT_OP(relu)\nTT_OP(silu)\n' >src/ops/list.h
finds lists 'nothing defines op silu'
printf 'TT_OP(gelu)\nTT_OP(relu)\nTT_OP(relu)\n' >src/ops/list.h
finds lists 'stands here twice'

mkdir -p src/backend/cpu
array='const tt_kernel_def tt__cpu_norm_kernels[] = {\n    {.run = f},\n'
printf 'TT_KERNELS(norm)\n' >src/backend/cpu/list.h
printf 'TT_OP(gelu)\nTT_OP(relu)\n' >src/ops/list.h
printf "$array    {0},\n};\n" >src/backend/cpu/norm.c
passes lists
printf "$array};\n" >src/backend/cpu/norm.c
finds lists 'tt__cpu_norm_kernels does not end with {0}'
mv src/backend/cpu/norm.c src/backend/cpu/pool.c
finds lists 'tt__cpu_norm_kernels should be tt__cpu_pool_kernels'
printf 'const tt_kernel_def tt__cpu_pool_kernels[] = {\n    {0},\n};\n' \
    >src/backend/cpu/pool.c
finds lists 'tt__cpu_pool_kernels has no line TT_KERNELS(pool)'
finds lists 'nothing defines kernels norm'
rm -r src/backend

printf 'int f(int a, int b, int c, int d, int e, int g,\n      int h)\n{\n}\n' \
    >src/base/f.c
finds size '7 parameters'
{
    printf 'int f(void)\n{\n'
    seq -f '    x(%g);' 81
    printf '}\n'
} >src/base/f.c
finds size 'function of 81 lines'
seq -f '// %g' 601 >src/base/f.c
finds size '601 lines'
rm src/base/f.c
seq -f '// %g' 201 >src/base/f.cuh
finds size 'src/base/f.cuh: 201 lines'
rm src/base/f.cuh
mkdir -p src/full tests/fuzz/corpus/text
(cd src/full && seq 45 | sed 's/$/.h/' | xargs touch)
(cd tests/fuzz/corpus/text && seq 46 | xargs touch)
passes size
touch src/full/46.cu
finds size 'src/full: 46 files; at most 45'
rm -r src/full tests
{
    printf 'template <int N, typename T, int A, int B>\n'
    printf '__global__ void __launch_bounds__(32) f(int a, int b, int c, int d, int e, int g,\n'
    printf '                                        int h, int i, int j)\n{\n}\n'
} >src/base/f.cu
passes size # a kernel may have nine
sed -i 's/int j)/int j, int k)/' src/base/f.cu
finds size '10 parameters; at most 9'
printf 'struct s {\n    int f(int a, int b, int c, int d, int e, int g, int h)\n    {\n    }\n};\n' \
    >src/base/f.cu
finds size '7 parameters; at most 6'
printf '#include "ops/list.h"\nvoid f() { abort(); }\n' >src/base/f.cu
finds layers 'src/base/f.cu:1: base/ may not include ops/'
finds banned 'src/base/f.cu:2: abort'
rm src/base/f.cu

printf 'void f(void)\n{\n    s->free(p); // malloc(1)\n    g("exit(1)");\n}\n' \
    >src/base/f.c
passes banned
for call in 'free(p)' 'malloc(1)' 'printf("")' 'exit(1)' 'strcpy(a, b)' \
    'fprintf(stderr, "")' 'getenv("A")'; do
    printf 'void f(void)\n{\n    %s;\n}\n' "$call" >src/base/f.c
    finds banned "src/base/f.c:3: "
done

rm -f src/base/f.c
passes names
printf 'typedef struct tt_event {\n    int a;\n} tt_event;\n' >src/base/event.h
printf 'typedef struct tt_event tt_event;\nvoid f(struct tt_event *);\n' >src/ops/event.h
passes names # the second only announces it
printf 'typedef struct {\n    struct {\n        int a;\n    } b;\n} tt_event;\n' >src/ops/event.h
finds names 'tt_event is a type of src/base/event.h and src/ops/event.h'
printf 'typedef int tt_event;\n' >src/ops/event.h
finds names 'tt_event is a type of'
printf 'typedef void (*tt_event)(int);\n' >src/ops/event.h
finds names 'tt_event is a type of'
rm src/ops/event.h
printf 'int tt_job_a(void);\nint tt_job_b(void);\n' >src/base/event.h
printf 'int tt__job_c(void);\n// int tt_job_d(void);\n' >src/ops/event.h
passes names # one function is no second object
printf 'int tt__job_c(void);\nstatic inline int tt_job_d(void)\n{\n    return 0;\n}\n' \
    >src/ops/event.h
finds names 'tt_job_ is a prefix of base/ (tt_job_a, tt_job_b) and of ops/'
{
    printf 'typedef struct tt_job_list tt_job_list;\nstruct tt_job_list {\n    int n;\n};\n'
    printf 'int tt_job_list_a(void);\nint tt_job_list_b(void);\n'
} >src/ops/event.h
passes names # they belong to a type of their own
rm src/base/event.h src/ops/event.h

mkdir docs src/pass
printf 'int f(void);\nint tt_lower(void); // and tt_gone\n' >src/pass/lower.c
{
    printf 'The `src/pass/lower.c`, `pass/lower.c:f`, `pass/lower`, `pass`, `lower.c`, `src/pass/`,\n'
    printf '`src/*/NAME.c`, `tt_lower`, `tt_lower()`, `f()`, `train x=1 y/z`, `pass.c o`, `runs/a`.\n'
    printf '```\n`pass/other.c`\n```\n'
} >docs/page.md
cp docs/page.md README.md
passes docs
printf '// As pass/lower.c, src/pass/lower.c and ../a/b.c say.\nint g(void);\n' >src/pass/a.c
passes docs
printf 'int g(void); // see pass/gone.c\n' >src/pass/a.c
finds docs 'src/pass/a.c:1: pass/gone.c: there is no such file'
rm src/pass/a.c
for stale in src/pass/gone.c pass/gone gone.h pass/lower.c:gone 'src/NAME/gone.c' \
    tt_gone 'tt_gone()' 'gone()' TT_GONE; do
    printf 'One.\nSee `%s`.\n' "$stale" >docs/page.md
    finds docs "docs/page.md:2: \`$stale\`: "
done
