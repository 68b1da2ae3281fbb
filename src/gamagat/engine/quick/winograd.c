/* Convolutions without a stride by Winograd's algorithm: 3x3 as F(4x4, 3x3), with a quarter of the products, 5x5 as
   F(2x2, 5x5), with a third.

   Images have their channels last, and channels come in multiples of lanes() on both sides. A tile of 4x4 or 2x2 results
   depends on 6x6 pixels. Pixels and weights are taken to 36 planes, in each of which the convolution is a product of
   matrices, and its results from there to those of the tile. The matrices B and A are those of Lavin and Gray,
   "Fast Algorithms for Convolutional Neural Networks", 2015, for the points 0, 1, -1, 2, -2 and infinity, which both
   have in common; the weights come here multiplied by their G. */

#include <stdlib.h>

#include "vectors.h"

#if LANES == 16
#define ACROSS 4 /* vectors of results that a product makes side by side */
#else
#define ACROSS 2
#endif
#define DOWN 6   /* tiles of a product: with ACROSS as many sums as there are registers for */
#define BLOCK 48 /* most tiles that a thread takes through all planes at a time */
#define PLANES 36

extern int omp_get_max_threads(void); /* torch's own: another library of threads would get in its way */

long across(void) { return LANES * ACROSS; }

static inline void into(vec r[6], const vec d[6]) { /* B^T d */
  vec s = d[4] - 4 * d[2], t = d[3] - 4 * d[1], u = d[4] - d[2], v = 2 * (d[3] - d[1]);
  r[0] = 4 * d[0] - 5 * d[2] + d[4];
  r[1] = s + t;
  r[2] = s - t;
  r[3] = u + v;
  r[4] = u - v;
  r[5] = 4 * d[1] - 5 * d[3] + d[5];
}

static inline void outof(vec r[4], const vec m[6], int side) { /* A^T m, for tiles of this side */
  vec s = m[1] + m[2], t = m[1] - m[2], u = m[3] + m[4], v = m[3] - m[4];
  r[0] = m[0] + s + u;
  r[1] = t + 2 * v;
  if (side == 2) {
    r[1] += m[5];
    return;
  }
  r[2] = s + 4 * u;
  r[3] = t + 8 * v + m[5];
}

/* ROWS tiles times a panel of weights that is WIDE vectors wide; c channels go in, m has o of them in a row. */
#define PRODUCT(NAME, ROWS, WIDE)                                                                        \
  static void NAME(const float *v, const float *u, float *m, long c, long o) {                           \
    vec sum[ROWS][WIDE];                                                                                 \
    for (int i = 0; i < ROWS; i++)                                                                       \
      for (int j = 0; j < WIDE; j++) sum[i][j] = (vec){0};                                               \
    for (long k = 0; k < c; k++, u += WIDE * LANES) {                                                    \
      vec w[WIDE];                                                                                       \
      for (int j = 0; j < WIDE; j++) w[j] = load(u + j * LANES);                                         \
      for (int i = 0; i < ROWS; i++)                                                                     \
        for (int j = 0; j < WIDE; j++) sum[i][j] += v[i * c + k] * w[j];                                 \
    }                                                                                                    \
    for (int i = 0; i < ROWS; i++)                                                                       \
      for (int j = 0; j < WIDE; j++) store(m + i * o + j * LANES, sum[i][j]);                            \
  }
#define PRODUCTS(WIDE)                                                                                   \
  PRODUCT(p1_##WIDE, 1, WIDE) PRODUCT(p2_##WIDE, 2, WIDE) PRODUCT(p3_##WIDE, 3, WIDE)                    \
  PRODUCT(p4_##WIDE, 4, WIDE) PRODUCT(p5_##WIDE, 5, WIDE) PRODUCT(p6_##WIDE, 6, WIDE)
PRODUCTS(1) PRODUCTS(2)
#if ACROSS == 4
PRODUCTS(3) PRODUCTS(4)
#endif
typedef void product(const float *, const float *, float *, long, long);
static product *const products[ACROSS][DOWN] = {
    {p1_1, p2_1, p3_1, p4_1, p5_1, p6_1},
    {p1_2, p2_2, p3_2, p4_2, p5_2, p6_2},
#if ACROSS == 4
    {p1_3, p2_3, p3_3, p4_3, p5_3, p6_3},
    {p1_4, p2_4, p3_4, p4_4, p5_4, p6_4},
#endif
};

/* Where a tile of side*side results lies; images are h*w before the convolution and high*wide after it. */
typedef struct {
  long h, w, high, wide, padding, side, across, down;
} shape;

static shape shaped(long h, long w, long padding, long side) {
  long less = 6 - side, high = h + 2 * padding - less, wide = w + 2 * padding - less;
  return (shape){h, w, high, wide, padding, side, (wide + side - 1) / side, (high + side - 1) / side};
}

static void take_in(const float *x, const float *sign, float *v, long tile, long at, shape s, long c) {
  long top = tile / s.across % s.down * s.side - s.padding, left = tile % s.across * s.side - s.padding;
  long image = tile / (s.across * s.down) * s.h * s.w * c;
  for (long k = 0; k < c; k += LANES) {
    vec half[6][6], whole[6];
    for (int j = 0; j < 6; j++) {
      vec pixel[6], column[6];
      for (int i = 0; i < 6; i++) {
        long row = top + i, place = left + j, from = image + (row * s.w + place) * c + k;
        int inside = row >= 0 && row < s.h && place >= 0 && place < s.w;
        pixel[i] = inside ? load(x + from) : (vec){0};
        if (inside && sign) pixel[i] = where_positive(load(sign + from), pixel[i]);
      }
      into(column, pixel);
      for (int i = 0; i < 6; i++) half[i][j] = column[i];
    }
    for (int i = 0; i < 6; i++) {
      into(whole, half[i]);
      for (int j = 0; j < 6; j++) store(v + ((6 * i + j) * BLOCK + at) * c + k, whole[j]);
    }
  }
}

static inline __attribute__((always_inline)) void give(const float *m, const float *bias, const float *other,
                                                       int rectified, float *y, long tile, long at, shape s, long o,
                                                       int side) {
  long top = tile / s.across % s.down * side, left = tile % s.across * side;
  long image = tile / (s.across * s.down) * s.high * s.wide * o;
  for (long k = 0; k < o; k += LANES) {
    vec half[4][6], whole[4], more = bias ? load(bias + k) : (vec){0};
    for (int j = 0; j < 6; j++) {
      vec sum[6], column[4];
      for (int i = 0; i < 6; i++) sum[i] = load(m + ((6 * i + j) * BLOCK + at) * o + k);
      outof(column, sum, side);
      for (int i = 0; i < side; i++) half[i][j] = column[i];
    }
    for (int i = 0; i < side && top + i < s.high; i++) {
      outof(whole, half[i], side);
      for (int j = 0; j < side && left + j < s.wide; j++) {
        long to = image + ((top + i) * s.wide + left + j) * o + k;
        vec sum = whole[j] + more;
        if (other) sum += load(other + to);
        store(y + to, rectified ? where_positive(sum, sum) : sum);
      }
    }
  }
}

static void give_out(const float *m, const float *bias, const float *other, int rectified, float *y, long tile,
                     long at, shape s, long o) { /* with a side that the compiler knows */
  if (s.side == 4)
    give(m, bias, other, rectified, y, tile, at, s, o, 4);
  else
    give(m, bias, other, rectified, y, tile, at, s, o, 2);
}

/* y = conv(x, u) + bias + other, where it is positive if it is to be rectified; of x only what has a positive sign.
   x and sign are n*h*w*c; y and other are n images of o channels, smaller on each side by 6 - side but for the padding;
   u has for each plane its c*o weights in panels of across() columns, row after row. A tile's side is 4 for 3x3 weights
   and 2 for 5x5 ones. Sign, bias and other may be missing. Returns 1 where there is no memory. */
int winograd(const float *x, const float *sign, const float *u, const float *bias, const float *other, float *y,
             int rectified, long n, long h, long w, long c, long o, long padding, long side) {
  shape s = shaped(h, w, padding, side);
  long tiles = n * s.across * s.down, threads = omp_get_max_threads();
  long blocks = (tiles + BLOCK * threads - 1) / (BLOCK * threads) * threads, size = (tiles + blocks - 1) / blocks;
  int failed = 0;
#pragma omp parallel
  {
    float *v = aligned_alloc(64, 4 * PLANES * BLOCK * c), *m = aligned_alloc(64, 4 * PLANES * BLOCK * o);
    if (!v || !m) failed = 1;
#pragma omp barrier
#pragma omp for schedule(static)
    for (long first = 0; first < tiles; first += size) {
      if (failed) continue;
      long count = tiles - first < size ? tiles - first : size;
      for (long at = 0; at < count; at++) take_in(x, sign, v, first + at, at, s, c);
      for (long plane = 0; plane < PLANES; plane++)
        for (long k = 0; k < o; k += ACROSS * LANES) {
          long vectors = (o - k) / LANES < ACROSS ? (o - k) / LANES : ACROSS;
          for (long at = 0; at < count; at += DOWN) {
            long rows = count - at < DOWN ? count - at : DOWN, row = plane * BLOCK + at;
            products[vectors - 1][rows - 1](v + row * c, u + (plane * o + k) * c, m + row * o + k, c, o);
          }
        }
      for (long at = 0; at < count; at++) give_out(m, bias, other, rectified, y, first + at, at, s, o);
    }
    free(v);
    free(m);
  }
  return failed;
}
