package luks

import (
	"bytes"
	stdpbkdf2 "crypto/pbkdf2"
	"encoding/hex"
	"errors"
	"math"
	"runtime"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/xtsdisk/xtsdisk/internal/hashes"
)

// Vectors of RFC 6070 (SHA-1) and RFC 7914, section 11 (SHA-256).
func TestPBKDF2Vectors(t *testing.T) {
	for _, v := range []struct {
		hash, pass, salt string
		iterations       int
		key              string
	}{
		{"sha1", "password", "salt", 1, "0c60c80f961f0e71f3a9b524af6012062fe037a6"},
		{"sha1", "password", "salt", 2, "ea6c014dc72d6f8ccd1ed92ace1d41f0d8de8957"},
		{"sha1", "password", "salt", 4096, "4b007901b765489abead49d926f721d065a429c1"},
		{"sha1", "passwordPASSWORDpassword", "saltSALTsaltSALTsaltSALTsaltSALTsalt", 4096, "3d2eec4fe41c849b80c8d83662c0e44a8b291a964cf2f07038"},
		{"sha1", "pass\x00word", "sa\x00lt", 4096, "56fa6aa75548099dcc37d7f03425e0c3"},
		{"sha256", "passwd", "salt", 1, "55ac046e56e3089fec1691c22544b605f94185216dde0465e68b9d57c20dacbc49ca9cccf179b645991664b39d77ef317c71b845b1e30bd509112041d3a19783"},
		{"sha256", "Password", "NaCl", 80000, "4ddcd8f60b98be21830cee5ef22701f9641a4418d04c0414aeff08876b34ab56a1d425a1225833549adb841b51c9b3176a272bdebba1d078478f62b397f33c8d"},
	} {
		want, err := hex.DecodeString(v.key)
		if err != nil {
			t.Fatal(err)
		}
		k := KDF{Type: KDFPBKDF2, Hash: v.hash, Iterations: v.iterations, Salt: []byte(v.salt)}
		got, err := k.derive(t.Context(), []byte(v.pass), len(want))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s %q: %x, %v; want %x", k, v.pass, got, err, want)
		}
	}
}

// Vectors of the reference implementation's tests (phc-winner-argon2, test.c,
// version 0x13).
func TestArgon2Vectors(t *testing.T) {
	for _, v := range []struct {
		kind    string
		memory  int
		threads int
		key     string
	}{
		{KDFArgon2i, 256, 1, "89e9029f4637b295beb027056a7336c414fadd43f6b208645281cb214a56452f"},
		{KDFArgon2i, 256, 2, "4ff5ce2769a1d7f4c8a491df09d41a9fbe90e5eb02155a13e4c01e20cd4eab61"},
		{KDFArgon2id, 256, 1, "9dfeb910e80bad0311fee20f9c0e2b12c17987b4cac90c2ef54d5b3021c68bfe"},
		{KDFArgon2id, 256, 2, "6d093c501fd5999645e0ea3bf620d7b8be7fd2db59c20d9fff9539da2bf57037"},
	} {
		k := KDF{Type: v.kind, Iterations: 2, MemoryKiB: v.memory, Threads: v.threads, Salt: []byte("somesalt")}
		got, err := k.derive(t.Context(), []byte("password"), 32)
		if err != nil || hex.EncodeToString(got) != v.key {
			t.Errorf("%s: %x, %v; want %s", k, got, err, v.key)
		}
	}
}

// The standard library agrees for every hash, length and iteration count.
func TestPBKDF2Standard(t *testing.T) {
	for _, name := range hashes.Names() {
		newHash := hashes.ByName(name)
		rapid.Check(t, func(t *rapid.T) {
			pass := rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "pass")
			salt := rapid.SliceOfN(rapid.Byte(), 1, 64).Draw(t, "salt")
			n := rapid.IntRange(1, 20).Draw(t, "iterations")
			size := rapid.IntRange(1, 200).Draw(t, "size")
			want, err := stdpbkdf2.Key(newHash, string(pass), salt, n, size)
			if err != nil {
				t.Fatal(err)
			}
			got, err := KDF{Type: KDFPBKDF2, Hash: name, Iterations: n, Salt: salt}.derive(t.Context(), pass, size)
			if err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%s: %x, %v; want %x", name, got, err, want)
			}
		})
	}
}

// Argon2's memory is given back before the key is: the peak of a program that
// opens a volume is the KDF's, and a second keyslot does not add to it.
func TestArgon2MemoryGivenBack(t *testing.T) {
	const kib = 64 << 10
	k := KDF{Type: KDFArgon2id, Iterations: 1, MemoryKiB: kib, Threads: 1, Salt: make([]byte, 32)}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := k.derive(t.Context(), []byte("x"), 32); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapSys-after.HeapReleased) - int64(before.HeapSys-before.HeapReleased); grown > kib<<10/4 {
		t.Errorf("%d bytes of heap are still held after a KDF of %d KiB", grown, kib)
	}
}

// setMemory puts other numbers in the place of the system's.
func setMemory(t *testing.T, bytes uint64, why string) {
	old := availableMemory
	availableMemory = func() (uint64, string) { return bytes, why }
	t.Cleanup(func() { availableMemory = old })
}

// The memory is checked before the KDF runs, and the error has both numbers.
func TestNotEnoughMemory(t *testing.T) {
	o := smallOptions()
	o.KDF = KDF{Type: KDFArgon2id, Iterations: 4, MemoryKiB: 32 << 10, Threads: 1}
	image, _ := formatted(t, o)
	editJSON(t, image, replace(t, `"memory":32768`, `"memory":2147483647`))
	_, err := unlock(t, image, "small", AnySlot)
	wantNamed(t, err, ErrPolicy, "2147483647 KiB")
	editJSON(t, image, replace(t, `"memory":2147483647`, `"memory":4194304`))
	setMemory(t, 200<<20, "memory.max of cgroup /x")
	_, err = unlock(t, image, "small", AnySlot)
	wantNamed(t, err, ErrNoMemory, "needs 4112 MiB, there are 200 MiB (memory.max of cgroup /x)")
	h, err := ReadHeader(image, -1)
	if err != nil {
		t.Fatal(err)
	}
	_, err = h.Unlock(t.Context(), image, []byte("small"), UnlockOptions{Slot: 0, Policy: Policy{MaxKDFMemoryKiB: 1 << 20}})
	wantNamed(t, err, ErrPolicy, "1048576 KiB allowed")
	if _, err := Prepare(t.Context(), FormatOptions{KDF: KDF{Type: KDFArgon2id, Iterations: 4, MemoryKiB: 1 << 20, Threads: 1}}); !errors.Is(err, ErrNoMemory) {
		t.Errorf("Prepare: %v", err)
	}
}

func TestAvailableMemory(t *testing.T) {
	bytes, why := AvailableMemory()
	if bytes < 1<<20 || (why == "") != (bytes == math.MaxUint64) {
		t.Errorf("%d bytes, %q", bytes, why)
	}
}

func TestChooseKDFForced(t *testing.T) {
	setMemory(t, 1<<40, "")
	threads := min(4, runtime.GOMAXPROCS(0))
	for _, c := range []struct {
		target KDFTarget
		want   KDF
	}{
		{KDFTarget{Type: KDFPBKDF2, ForceIterations: 1000}, KDF{Type: KDFPBKDF2, Hash: "sha256", Iterations: 1000}},
		{KDFTarget{Type: KDFPBKDF2, Hash: "sha512", ForceIterations: 12345}, KDF{Type: KDFPBKDF2, Hash: "sha512", Iterations: 12345}},
		{KDFTarget{ForceIterations: 4}, KDF{Type: KDFArgon2id, Iterations: 4, MemoryKiB: 1 << 20, Threads: threads}},
		{KDFTarget{Type: KDFArgon2i, ForceIterations: 7, MaxMemoryKiB: 32, MaxThreads: 1}, KDF{Type: KDFArgon2i, Iterations: 7, MemoryKiB: 32, Threads: 1}},
		{KDFTarget{ForceIterations: 4, MaxMemoryKiB: 4 << 20, MaxThreads: 1}, KDF{Type: KDFArgon2id, Iterations: 4, MemoryKiB: 4 << 20, Threads: 1}},
	} {
		got, err := ChooseKDF(t.Context(), c.target)
		if err != nil || got.String() != c.want.String() || got.Hash != c.want.Hash {
			t.Errorf("%+v: %v, %v; want %v", c.target, got, err, c.want)
		}
	}
}

func TestChooseKDFLimits(t *testing.T) {
	for _, c := range []struct {
		target KDFTarget
		want   error
	}{
		{KDFTarget{Type: "scrypt"}, ErrUnsupported},
		{KDFTarget{Type: KDFPBKDF2, Hash: "md5"}, ErrUnsupported},
		{KDFTarget{Type: KDFPBKDF2, ForceIterations: 999}, ErrOption},
		{KDFTarget{Type: KDFPBKDF2, ForceIterations: -1}, ErrOption},
		{KDFTarget{ForceIterations: 3}, ErrOption},
		{KDFTarget{IterTime: -time.Second}, ErrOption},
		{KDFTarget{MaxMemoryKiB: 31}, ErrOption},
		{KDFTarget{MaxMemoryKiB: 4<<20 + 1}, ErrOption},
		{KDFTarget{MaxMemoryKiB: 31, ForceIterations: 4}, ErrOption},
		{KDFTarget{MaxThreads: 5}, ErrOption},
		{KDFTarget{MaxThreads: -1}, ErrOption},
		{KDFTarget{KeySize: -1}, ErrOption},
	} {
		if _, err := ChooseKDF(t.Context(), c.target); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v; want %v", c.target, err, c.want)
		}
	}
}

// Measured costs stay inside the limits, and memory inside half of what there is.
func TestChooseKDFMeasured(t *testing.T) {
	setMemory(t, 48<<20, "test")
	for _, target := range []KDFTarget{
		{IterTime: time.Millisecond},
		{IterTime: 100 * time.Millisecond},
		{Type: KDFArgon2i, IterTime: 20 * time.Millisecond, MaxMemoryKiB: 256, MaxThreads: 1},
		{Type: KDFPBKDF2, IterTime: time.Millisecond},
		{Type: KDFPBKDF2, Hash: "sha512", IterTime: 50 * time.Millisecond},
	} {
		k, err := ChooseKDF(t.Context(), target)
		if err != nil {
			t.Errorf("%+v: %v", target, err)
			continue
		}
		if err := k.checkNew(); err != nil {
			t.Errorf("%+v: %v: %v", target, k, err)
		}
		if most := 24 << 10; k.MemoryKiB > most || target.MaxMemoryKiB > 0 && k.MemoryKiB > target.MaxMemoryKiB {
			t.Errorf("%+v: %v", target, k)
		}
	}
	setMemory(t, 8<<20, "test")
	if _, err := ChooseKDF(t.Context(), KDFTarget{MaxMemoryKiB: 32 << 10, ForceIterations: 4}); !errors.Is(err, ErrNoMemory) {
		t.Errorf("exactly 32 MiB of 8: %v", err)
	}
	k, err := ChooseKDF(t.Context(), KDFTarget{ForceIterations: 4})
	if err != nil || k.MemoryKiB != 4<<10 {
		t.Errorf("half of 8 MiB: %v, %v", k, err)
	}
}
