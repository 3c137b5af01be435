/* oneMKL asks this function whether the processor is Intel's, and gives all others its AVX2 products. Preloaded before torch, this
   answer makes it look at what the processor can do: tools/run builds and preloads it for ZOO_MKL_AVX512=1 (docs/performance.md). */
int mkl_serv_intel_cpu_true(void) { return 1; }
