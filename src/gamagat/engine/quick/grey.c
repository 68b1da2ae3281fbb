/* Convolutions of one channel without a stride, and back: every number once, none for lanes that stay empty.

   Results have their channels last, in multiples of lanes(). Weights are `kernel` matrices, row after row of the window,
   of o numbers each. */

#include "vectors.h"

/* h*w pixels of an image become high*wide results; a window is tall*broad, with padding above and beside. */
typedef struct {
  long n, h, w, high, wide, tall, broad, above, beside, o;
} shape;

static inline long least(long a, long b) { return a < b ? a : b; }
static inline long most(long a, long b) { return a > b ? a : b; }

/* y = conv(x, u) + bias, where it is positive if it is to be rectified. */
void there(const float *x, const float *u, const float *bias, float *y, int rectified, const shape *given) {
  const shape s = *given;
#pragma omp parallel for collapse(2) schedule(static)
  for (long image = 0; image < s.n; image++)
    for (long row = 0; row < s.high; row++) {
      long top = row - s.above, i0 = most(0, -top), i1 = least(s.tall, s.h - top);
      for (long k = 0; k < s.o; k += LANES)
        for (long column = 0; column < s.wide; column++) {
          long left = column - s.beside, j0 = most(0, -left), j1 = least(s.broad, s.w - left);
          vec sum = load(bias + k);
          for (long i = i0; i < i1; i++) {
            const float *pixel = x + (image * s.h + top + i) * s.w + left, *weight = u + i * s.broad * s.o + k;
            for (long j = j0; j < j1; j++) sum += pixel[j] * load(weight + j * s.o);
          }
          store(y + ((image * s.high + row) * s.wide + column) * s.o + k,
                rectified ? where_positive(sum, sum) : sum);
        }
    }
}

/* The gradient for x from the one for y; of that only what has a positive sign, where signs are given. */
void back(const float *g, const float *sign, const float *u, float *to, const shape *given) {
  const shape s = *given;
#pragma omp parallel for collapse(2) schedule(static)
  for (long image = 0; image < s.n; image++)
    for (long down = 0; down < s.h; down++) {
      long bottom = down + s.above, i0 = most(0, bottom - s.high + 1), i1 = least(s.tall, bottom + 1);
      for (long right = 0; right < s.w; right++) {
        long end = right + s.beside, j0 = most(0, end - s.wide + 1), j1 = least(s.broad, end + 1);
        vec sum = {0};
        for (long i = i0; i < i1; i++)
          for (long j = j0; j < j1; j++) {
            long from = ((image * s.high + bottom - i) * s.wide + end - j) * s.o;
            const float *weight = u + (i * s.broad + j) * s.o;
            if (sign)
              for (long k = 0; k < s.o; k += LANES)
                sum += where_positive(load(sign + from + k), load(g + from + k)) * load(weight + k);
            else
              for (long k = 0; k < s.o; k += LANES) sum += load(g + from + k) * load(weight + k);
          }
        float total = 0;
        for (int k = 0; k < LANES; k++) total += sum[k];
        to[(image * s.h + down) * s.w + right] = total;
      }
    }
}
