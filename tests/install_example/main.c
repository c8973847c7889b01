/* Sums rows through an installed Tilewright. */
#include <stdio.h>
#include <tilewright.h>

int main(void) {
  tw_kernel* k = tw_compile("axis r, j\ninput x[r, j] : f32\ny[r] = sum[j](x * x)\noutput y : f32\n",
                            "interp", NULL, NULL);
  float x[6] = {1, 2, 3, 4, 5, 6}, y[2];
  const int64_t matrix[] = {2, 3}, rows[] = {2};
  const tw_array arrays[] = {{"x", "f32", x, 2, matrix, NULL}, {"y", "f32", y, 1, rows, NULL}};
  if (k == NULL || tw_run(k, arrays, 2, NULL, 0, NULL) != 0) {
    fprintf(stderr, "%s\n", tw_last_error());
    return 1;
  }
  printf("%s: %g %g\n", tw_version(), y[0], y[1]);
  tw_free(k);
  return 0;
}
