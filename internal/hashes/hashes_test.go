package hashes

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"reflect"
	"testing"
	"unsafe"
)

// The digests of "abc": FIPS 180-4 and FIPS 202 examples, RFC 7693 appendices
// A and B, RIPEMD-160's and Whirlpool's reference pages; the shorter BLAKE2b by
// coreutils' b2sum -l.
var abc = map[string]string{
	"ripemd160":   "8eb208f7e05d987a9b044a8e98c6b087f15a0bfc",
	"sha1":        "a9993e364706816aba3e25717850c26c9cd0d89d",
	"sha224":      "23097d223405d8228642a477bda255b32aadbce4bda0b3f7e36c9da7",
	"sha256":      "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
	"sha384":      "cb00753f45a35e8bb5a03d699ac65007272c32ab0eded1631a8b605a43ff5bed8086072ba1e7cc2358baeca134c825a7",
	"sha512":      "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
	"sha3-224":    "e642824c3f8cf24ad09234ee7d3c766fc9a3a5168d0c94ad73b46fdf",
	"sha3-256":    "3a985da74fe225b2045c172d6bd390bd855f086e3e9d525b46bfe24511431532",
	"sha3-384":    "ec01498288516fc926459f58e2c6ad8df9b473cb0fc08c2596da7cf0e49be4b298d88cea927ac7f539f1edf228376d25",
	"sha3-512":    "b751850b1a57168a5693cd924b6b096e08f621827444f70d884f5d0240d2712e10e116e9192af3c91a7ec57647e3934057340b4cf408d5a56592f8274eec53f0",
	"blake2b-160": "384264f676f39536840523f284921cdc68b6846b",
	"blake2b-256": "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319",
	"blake2b-384": "6f56a82c8e7ef526dfe182eb5212f7db9df1317e57815dbda46083fc30f54ee6c66ba83be64b302d7cba6ce15bb556f4",
	"blake2b-512": "ba80a53f981c4d0d6a2797b69f12f6e94c212f14685ac4b74b12bb6fdbffa2d17d87c5392aab792dc252d5de4533cc9518d38aa8dbf1925ab92386edd4009923",
	"blake2s-256": "508c5e8c327c14e2e1a72ba34eeb452f37458b209ed63a294d999b4c86675982",
	"whirlpool":   "4e2448a4c6f486bb16b6562c73b4020bf3043e3a731bce721ae1b303d97e6d4c7181eebdb6c57e277d0e34957114cbd6c797fc9d95d8b582d225292076d4eef5",
	"wp512":       "4e2448a4c6f486bb16b6562c73b4020bf3043e3a731bce721ae1b303d97e6d4c7181eebdb6c57e277d0e34957114cbd6c797fc9d95d8b582d225292076d4eef5",
	"wp384":       "4e2448a4c6f486bb16b6562c73b4020bf3043e3a731bce721ae1b303d97e6d4c7181eebdb6c57e277d0e34957114cbd6",
	"wp256":       "4e2448a4c6f486bb16b6562c73b4020bf3043e3a731bce721ae1b303d97e6d4c",
	// Right for a message that is written at once.
	"whirlpool_gcryptbug": "4e2448a4c6f486bb16b6562c73b4020bf3043e3a731bce721ae1b303d97e6d4c7181eebdb6c57e277d0e34957114cbd6c797fc9d95d8b582d225292076d4eef5",
}

func TestKnownDigests(t *testing.T) {
	for _, name := range Names() {
		want, ok := abc[name]
		if !ok {
			t.Errorf("%s has no known digest here", name)
			continue
		}
		h := ByName(name)()
		h.Write([]byte("abc"))
		if got := hex.EncodeToString(h.Sum(nil)); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if len(abc) != len(Names()) {
		t.Error("a digest is known for a hash that is missing")
	}
	if ByName("md5") != nil {
		t.Error("md5 is offered")
	}
}

// What a hash function was given is not in its memory any more, and it goes on
// as a new one.
func TestForget(t *testing.T) {
	const message = "a secret that fits into a block"
	for _, name := range Names() {
		h := ByName(name)()
		memory := unsafe.Slice((*byte)(reflect.ValueOf(h).UnsafePointer()), reflect.TypeOf(h).Elem().Size())
		h.Write([]byte(message))
		if !bytes.Contains(memory, []byte(message)[:16]) {
			t.Errorf("%s: the message is not seen where it should be", name)
		}
		Forget(h)
		for i := range len(message) - 4 {
			if bytes.Contains(memory, []byte(message)[i:i+4]) {
				t.Errorf("%s: %q is left", name, message[i:i+4])
				break
			}
		}
		h.Write([]byte("abc"))
		if got := hex.EncodeToString(h.Sum(nil)); got != abc[name] {
			t.Errorf("%s: digest %s after Forget", name, got)
		}
	}
}

// Whirlpool at every length around its block and padding, against OpenSSL: the
// SHA-256 of all the digests.
func TestWhirlpoolLengths(t *testing.T) {
	message := make([]byte, 200)
	for i := range message {
		message[i] = byte(i % 251)
	}
	all := sha256.New()
	for n := range message {
		h := ByName("whirlpool")()
		h.Write(message[:n/3])
		h.Write(message[n/3 : n])
		all.Write(h.Sum(nil))
	}
	if got := hex.EncodeToString(all.Sum(nil)); got != "a1be27f1a53bc9a71626a96548cebd109ccdef13163b6b224ea1d46b92a75eb1" {
		t.Errorf("the digests' digest is %s", got)
	}
}

// The flaw of old libgcrypt, by what libgcrypt 1.10 gives with its emulation of
// it: it shows where a write ends inside, or with, a block that an earlier one
// started.
func TestWhirlpoolFlaw(t *testing.T) {
	const right = "9bd20ef4455ad7bf27835568a3520ca4"
	message := bytes.Repeat([]byte("0123456789abcdef"), 12)
	for _, c := range []struct {
		cuts []int
		want string
	}{
		{nil, right},
		{[]int{64}, right},
		{[]int{128, 128}, right},
		{[]int{4}, right},
		{[]int{64, 100}, right},
		{[]int{4, 30}, "7b21653b53214d2efacb5cec9223c683"},
		{[]int{4, 64}, "b1eea40fa2b3b9587dce933700d65c7a"},
		{[]int{130}, "e299c02205eeebdf0bacee95adc5d8dd"},
		{[]int{10, 20, 30, 40, 50, 64, 100, 190}, "fe8aa9a6c8ef8cc742ba889e6b27b4b1"},
	} {
		flawed, sound := ByName("whirlpool_gcryptbug")(), ByName("whirlpool")()
		from := 0
		for _, to := range append(c.cuts, len(message)) {
			flawed.Write(message[from:to])
			sound.Write(message[from:to])
			from = to
		}
		if got := hex.EncodeToString(flawed.Sum(nil)[:16]); got != c.want {
			t.Errorf("cuts %v: flawed %s, want %s", c.cuts, got, c.want)
		}
		if got := hex.EncodeToString(sound.Sum(nil)[:16]); got != right {
			t.Errorf("cuts %v: whirlpool %s, want %s", c.cuts, got, right)
		}
	}
}
