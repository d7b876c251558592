// AES-XTS by OpenSSL's libcrypto, timed from C: a peer in the turns of
// internal/speed, which starts it once and asks it for one sample at a time.
//
// A line on standard input: BITS DECRYPT SIZE BYTES CALLS. It encrypts or
// decrypts BYTES bytes in place as data units of SIZE bytes, CALLS times, and
// once before that does not count; or with CALLS 0 one unit of zeros, to compare.
// A line on standard output: nanoseconds and the clock in cycles per nanosecond
// before and after; or the bytes in hexadecimal.
//
// It needs no headers of OpenSSL: the few functions are declared here, from its
// manual pages EVP_EncryptInit(3) and EVP_aes_128_gcm(3).
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void *(*ctx_new)(void);
static const void *(*aes_xts[2])(void);
static int (*init)(void *ctx, const void *type, void *engine, const unsigned char *key, const unsigned char *iv, int enc);
static int (*update)(void *ctx, unsigned char *out, int *outl, const unsigned char *in, int inl);

static void fail(const char *what) {
	fprintf(stderr, "openssl.c: %s\n", what);
	exit(1);
}

static void load(void) {
	static const char *names[] = {"libcrypto.so.3", "libcrypto.so.1.1", "libcrypto.so"};
	void *lib = NULL;
	for (size_t i = 0; lib == NULL && i < sizeof names / sizeof *names; i++)
		lib = dlopen(names[i], RTLD_NOW);
	if (lib == NULL) {
		fprintf(stderr, "openssl.c: no libcrypto\n");
		exit(3);
	}
	*(void **)&ctx_new = dlsym(lib, "EVP_CIPHER_CTX_new");
	*(void **)&aes_xts[0] = dlsym(lib, "EVP_aes_128_xts");
	*(void **)&aes_xts[1] = dlsym(lib, "EVP_aes_256_xts");
	*(void **)&init = dlsym(lib, "EVP_CipherInit_ex");
	*(void **)&update = dlsym(lib, "EVP_CipherUpdate");
	if (!ctx_new || !aes_xts[0] || !aes_xts[1] || !init || !update)
		fail("libcrypto lacks a function");
}

static int64_t now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

// clock_rate counts cycles by a chain of additions of one cycle each; the best
// of three, as what disturbs only slows down. 0 where there is none.
static double clock_rate(void) {
	double best = 0;
#if defined(__x86_64__)
	for (int repeat = 0; repeat < 3; repeat++) {
		uint64_t x = 0, one = 1;
		int64_t start = now();
		for (int i = 0; i < 2500; i++)
			__asm__ volatile(
				"add %1, %0\n\tadd %1, %0\n\tadd %1, %0\n\tadd %1, %0\n\t"
				"add %1, %0\n\tadd %1, %0\n\tadd %1, %0\n\tadd %1, %0\n\t"
				"add %1, %0\n\tadd %1, %0\n\tadd %1, %0\n\tadd %1, %0\n\t"
				"add %1, %0\n\tadd %1, %0\n\tadd %1, %0\n\tadd %1, %0"
				: "+r"(x) : "r"(one));
		double rate = 2500.0 * 16 / (double)(now() - start);
		if (rate > best)
			best = rate;
	}
#endif
	return best;
}

// A key schedule for each key size and direction, made once.
static void *context(int bits, int decrypt) {
	static void *made[2][2];
	if (bits != 128 && bits != 256)
		fail("no such key size");
	void **ctx = &made[bits == 256][!!decrypt];
	if (*ctx == NULL) {
		unsigned char key[64], iv[16] = {0};
		for (size_t i = 0; i < sizeof key; i++)
			key[i] = (unsigned char)(i * 7);
		*ctx = ctx_new();
		if (!*ctx || init(*ctx, aes_xts[bits == 256](), NULL, key, iv, !decrypt) != 1)
			fail("EVP_CipherInit_ex");
	}
	return *ctx;
}

static void work(void *ctx, unsigned char *buf, int size, int bytes) {
	uint64_t sector = 1 << 20; // as firstSector
	for (int at = 0; at < bytes; at += size, sector++) {
		uint64_t iv[2] = {sector, 0};
		int n;
		if (init(ctx, NULL, NULL, NULL, (unsigned char *)iv, -1) != 1 || update(ctx, buf + at, &n, buf + at, size) != 1)
			fail("EVP_CipherUpdate");
	}
}

int main(void) {
	static unsigned char buf[1 << 20] __attribute__((aligned(64)));
	char line[128];
	load();
	while (fgets(line, sizeof line, stdin)) {
		int bits, decrypt, size, bytes, calls;
		if (sscanf(line, "%d %d %d %d %d", &bits, &decrypt, &size, &bytes, &calls) != 5 ||
		    size < 16 || bytes < size || bytes > (int)sizeof buf)
			fail("a request is not understood");
		void *ctx = context(bits, decrypt);
		if (calls == 0) {
			memset(buf, 0, (size_t)bytes);
			work(ctx, buf, size, bytes);
			for (int i = 0; i < bytes; i++)
				printf("%02x", buf[i]);
			printf("\n");
		} else {
			work(ctx, buf, size, bytes);
			double before = clock_rate();
			int64_t start = now();
			for (int i = 0; i < calls; i++)
				work(ctx, buf, size, bytes);
			int64_t took = now() - start;
			printf("%lld %.6f %.6f\n", (long long)took, before, clock_rate());
		}
		fflush(stdout);
	}
	return 0;
}
