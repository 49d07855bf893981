// gemm_suggest - cuBLASLt's algorithms for a product that are worth a trial: what its
// heuristics suggest for the shape, and what they suggest for neighbouring shapes if it
// works for this one.

#include "backend/cuda/dev/gemm/gemm.cuh"

enum { CANDIDATES = GEMM_WAYS / 3 }; // of one question

int gemm_suggest(const gemm_product *g, uint32_t alignment,
                 cublasLtMatmulHeuristicResult_t *out)
{
    static const cublasLtMatmulPreferenceAttributes_t aligned[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
    };
    cublasLtMatmulPreference_t wish = NULL;
    int n = 0;
    if (cublasLtMatmulPreferenceCreate(&wish) != CUBLAS_STATUS_SUCCESS)
        return 0;
    const uint64_t bytes = gemm_workspace_bytes;
    (void)cublasLtMatmulPreferenceSetAttribute(
        wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes);
    for (const auto name : aligned)
        (void)cublasLtMatmulPreferenceSetAttribute(wish, name, &alignment,
                                                   sizeof alignment);
    if (cublasLtMatmulAlgoGetHeuristic(g->cuda->lt, g->op, g->a, g->b, g->c,
                                       g->c, wish, CANDIDATES, out,
                                       &n) != CUBLAS_STATUS_SUCCESS)
        n = 0;
    cublasLtMatmulPreferenceDestroy(wish);
    int kept = 0;
    for (int i = 0; i < n; i++)
        if (out[i].state == CUBLAS_STATUS_SUCCESS)
            out[kept++] = out[i];
    return kept;
}

// Adds to n ways those that are suggested for other extents and work for these.
static int add_others(const gemm_product *g, const int64_t extent[3],
                      cublasLtMatmulHeuristicResult_t *found, int n)
{
    const tt_cuda_gemm_desc &d = g->desc;
    cublasLtMatmulHeuristicResult_t more[CANDIDATES], checked;
    const bool is_set =
        gemm_product_resize(g, extent[0], extent[1], extent[2]) == NULL;
    const int n_more = is_set ? gemm_suggest(g, 16, more) : 0;
    if (gemm_product_resize(g, d.m, d.n, d.k) != NULL)
        return 0;
    for (int i = 0; i < n_more && n < GEMM_WAYS; i++) {
        bool is_known = false;
        for (int k = 0; k < n && !is_known; k++)
            is_known =
                memcmp(&found[k].algo, &more[i].algo, sizeof more[i].algo) == 0;
        if (is_known ||
            cublasLtMatmulAlgoCheck(g->cuda->lt, g->op, g->a, g->b, g->c, g->c,
                                    &more[i].algo,
                                    &checked) != CUBLAS_STATUS_SUCCESS ||
            (int64_t)checked.workspaceSize > gemm_workspace_bytes)
            continue;
        found[n] = checked;
        found[n++].algo = more[i].algo;
    }
    return n;
}

static int64_t rounded(int64_t extent)
{
    return extent > 64 ? extent - extent % 64 : extent;
}

// The fastest kernel is not always among the suggestions. For 50256 columns they leave
// out one that they give for 50240 and that takes 12% less time; for 3840 columns one
// that they give for 3904 and that takes 4% less.
int gemm_suggest_more(const gemm_product *g,
                      cublasLtMatmulHeuristicResult_t *found, int n)
{
    const tt_cuda_gemm_desc &d = g->desc;
    const int64_t round[] = {rounded(d.m), rounded(d.n), rounded(d.k)};
    const int64_t wider[] = {d.m, d.n + 64, d.k};
    const int64_t shorter[] = {d.m > 64 ? d.m - 8 : d.m, d.n, d.k};
    if (d.batch > 1 || is_tiny(d.a.type))
        return n;
    if (round[0] != d.m || round[1] != d.n || round[2] != d.k)
        return add_others(g, round, found, n);
    n = add_others(g, wider, found, n);
    return add_others(g, shorter, found, n);
}
