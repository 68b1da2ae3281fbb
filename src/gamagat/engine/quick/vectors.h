/* Vectors of numbers as this processor has them. */

#ifdef __AVX512F__
#define LANES 16
#else
#define LANES 8
#endif

typedef float vec __attribute__((vector_size(4 * LANES)));
typedef float anywhere __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int bits __attribute__((vector_size(4 * LANES)));

static inline vec load(const float *from) { return *(const anywhere *)from; }
static inline void store(float *to, vec value) { *(anywhere *)to = value; }

/* Where the sign is positive, or no number: that is to be seen at the end, as with torch's own ReLU. */
static inline vec where_positive(vec sign, vec value) { return (vec)((bits)value & ~(bits)(sign <= 0)); }

long lanes(void) { return LANES; }
