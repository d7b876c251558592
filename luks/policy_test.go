package luks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// The estimates are the documented rates, and nothing overflows.
func TestEstimatedTime(t *testing.T) {
	for _, c := range []struct {
		kdf  KDF
		size int
		want time.Duration
	}{
		{KDF{Type: KDFArgon2id, MemoryKiB: 1 << 20, Iterations: 4, Threads: 4}, 64, time.Second},
		{KDF{Type: KDFArgon2id, MemoryKiB: 1 << 20, Iterations: 4, Threads: 1}, 64, 4 * time.Second},
		{KDF{Type: KDFArgon2i, MemoryKiB: 4 << 20, Iterations: 60, Threads: 255}, 64, time.Minute},
		{KDF{Type: KDFArgon2id, MemoryKiB: maxMemoryKiB, Iterations: maxIterations, Threads: 1}, 64, 1 << 32 * time.Second},
		{KDF{Type: KDFPBKDF2, Hash: "sha1", Iterations: 5_000_000}, 20, time.Second},
		{KDF{Type: KDFPBKDF2, Hash: "sha1", Iterations: 5_000_000}, 64, 4 * time.Second},
		{KDF{Type: KDFPBKDF2, Hash: "sha256", Iterations: 5_000_000}, 64, 2 * time.Second},
		{KDF{Type: KDFPBKDF2, Hash: "sha512", Iterations: 2_000_000}, 64, time.Second},
		{KDF{Type: KDFPBKDF2, Hash: "ripemd160", Iterations: 1_000_000}, 32, 2 * time.Second},
		{KDF{Type: "scrypt", Iterations: 1 << 30}, 64, 0},
		{KDF{Type: KDFPBKDF2, Hash: "none", Iterations: 1 << 30}, 64, 0},
	} {
		if got := c.kdf.EstimatedTime(c.size); got != c.want {
			t.Errorf("%s for %d bytes: %v, want %v", c.kdf, c.size, got, c.want)
		}
	}
}

// refusedBy wants the policy's refusal, soon, naming the field that allows it.
func refusedBy(t *testing.T, image memory, o UnlockOptions, field, word string) {
	t.Helper()
	h, err := ReadHeader(image, int64(len(image)))
	if err != nil {
		t.Fatal(err)
	}
	best := time.Hour
	for range 5 {
		start := time.Now()
		_, err = h.Unlock(t.Context(), image, []byte("zero"), o)
		best = min(best, time.Since(start))
	}
	wantNamed(t, err, ErrPolicy, word)
	var refused *PolicyError
	if !errors.As(err, &refused) || refused.Field != field {
		t.Errorf("%v: not by %s", err, field)
	}
	if best > costTime && !raceEnabled {
		t.Errorf("refused after %v", best)
	}
}

func TestPolicyTime(t *testing.T) {
	image, key := formatted(t, smallOptions())
	any := UnlockOptions{Slot: AnySlot}
	costly := memory(bytes.Clone(image))
	editJSON(t, costly, replace(t, `"iterations":1000,"salt"`, `"iterations":2147483647,"salt"`))
	refusedBy(t, costly, any, "MaxKDFTime", "more than the 1m0s allowed")
	refusedBy(t, image, UnlockOptions{Slot: 0, Policy: Policy{MaxKDFTime: time.Microsecond}}, "MaxKDFTime", "allowed")

	argon := memory(bytes.Clone(image))
	editJSON(t, argon, func(text string) string {
		i := strings.Index(text, `"kdf":{`)
		salt := text[i+strings.Index(text[i:], `"salt"`):]
		return text[:i] + `"kdf":{"type":"argon2id","time":2147483647,"memory":1024,"cpus":1,` + salt
	})
	refusedBy(t, argon, any, "MaxKDFTime", "argon2id")

	// The digest is paid for, too, with a passphrase and with a key.
	digest := memory(bytes.Clone(image))
	editJSON(t, digest, replace(t, `"iterations":1000,"salt":"`, `"iterations":1000,"salt":"`))
	editJSON(t, digest, func(text string) string {
		i := strings.Index(text, `"digests"`)
		return text[:i] + strings.Replace(text[i:], `"iterations":1000`, `"iterations":2147483647`, 1)
	})
	refusedBy(t, digest, any, "MaxKDFTime", "digest of the key")
	h, err := ReadHeader(digest, -1)
	if err != nil {
		t.Fatal(err)
	}
	_, err = h.UnlockWithKey(t.Context(), key, Policy{})
	wantNamed(t, err, ErrPolicy, "digest 0")
}

// The time is that of all keyslots tried; one by its number starts anew.
func TestPolicyTimeOfAllKeyslots(t *testing.T) {
	image, _ := manySlots(t, "zero", "one", "two")
	h, err := ReadHeader(image, -1)
	if err != nil {
		t.Fatal(err)
	}
	d := h.Digests[0]
	one := h.Keyslots[0].KDF.EstimatedTime(32) + d.KDF.EstimatedTime(len(d.Value))
	o := UnlockOptions{Slot: AnySlot, Policy: Policy{MaxKDFTime: 2 * one}}
	_, err = h.Unlock(t.Context(), image, []byte("two"), o)
	wantNamed(t, err, ErrWrongPassphrase, "tried keyslot 0, 1; keyslot 2: refused")
	v, err := h.Unlock(t.Context(), image, []byte("two"), UnlockOptions{Slot: 2, Policy: o.Policy})
	if err != nil {
		t.Fatal(err)
	}
	v.Close()
}

func TestPolicyMemory(t *testing.T) {
	o := smallOptions()
	o.KDF, o.Passphrase = cheapArgon2, []byte("zero")
	image, _ := formatted(t, o)
	refusedBy(t, image, UnlockOptions{Slot: AnySlot, Policy: Policy{MaxKDFMemoryKiB: 31}}, "MaxKDFMemoryKiB", "32 KiB of memory, more than the 31 KiB")
	editJSON(t, image, replace(t, `"memory":32`, `"memory":4194305`))
	refusedBy(t, image, UnlockOptions{Slot: AnySlot}, "MaxKDFMemoryKiB", "4194305 KiB")
	// Allowed, it depends on what there is.
	setMemory(t, 1<<30, "test")
	h, _ := ReadHeader(image, -1)
	_, err := h.Unlock(t.Context(), image, []byte("zero"), UnlockOptions{Slot: AnySlot, Policy: Policy{MaxKDFMemoryKiB: 8 << 20}})
	wantNamed(t, err, ErrNoMemory, "needs 4112 MiB, there are 1024 MiB (test)")
}

func TestPolicyWeak(t *testing.T) {
	whole, key := formatted(t, smallOptions())
	any := UnlockOptions{Slot: AnySlot}
	for _, cipher := range []string{"cipher_null-ecb", "aes-ecb"} {
		image := memory(bytes.Clone(whole))
		editJSON(t, image, replace(t, `"iv_tweak":"0","encryption":"aes-xts-plain64"`, fmt.Sprintf(`"iv_tweak":"0","encryption":"%s"`, cipher)))
		refusedBy(t, image, any, "AllowWeak", `segment 0: cipher "`+cipher+`"`)
		h, _ := ReadHeader(image, -1)
		if _, err := h.UnlockWithKey(t.Context(), key, Policy{}); !errors.Is(err, ErrPolicy) {
			t.Errorf("%s with the key: %v", cipher, err)
		}
		v, err := h.Unlock(t.Context(), image, []byte("small"), UnlockOptions{Slot: AnySlot, Policy: Policy{AllowWeak: true}})
		if err != nil {
			t.Errorf("%s, allowed: %v", cipher, err)
			continue
		}
		v.Close()
	}
	image := memory(bytes.Clone(whole))
	editJSON(t, image, replace(t, `"encryption":"aes-xts-plain64","key_size":32`, `"encryption":"cipher_null-ecb","key_size":32`))
	refusedBy(t, image, any, "AllowWeak", "keyslot 0: refused: area cipher cipher_null-ecb")
}

// With other stripes than 4000, a keyslot opens if that is allowed.
func TestPolicyStripes(t *testing.T) {
	image, key := formatted(t, smallOptions())
	h, err := ReadHeader(image, -1)
	if err != nil {
		t.Fatal(err)
	}
	k := h.Keyslots[0]
	k.AF.Stripes = 3000
	areaKey, err := k.KDF.derive(t.Context(), []byte("small"), k.Area.KeySize)
	if err != nil {
		t.Fatal(err)
	}
	area, err := k.fill(key, areaKey)
	if err != nil {
		t.Fatal(err)
	}
	copy(image[k.Area.Offset:], area)
	editJSON(t, image, replace(t, `"stripes":4000`, `"stripes":3000`))
	refusedBy(t, image, UnlockOptions{Slot: AnySlot}, "AllowStripes", "3000 stripes")
	v, err := Open(t.Context(), image, -1, []byte("small"), UnlockOptions{Slot: AnySlot, Policy: Policy{AllowStripes: true}})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(v.Key(), key) {
		t.Error("another key")
	}
	v.Close()
}

// Plain data beside encrypted data needs AllowWeak, and is handed on.
func TestPolicyLinear(t *testing.T) {
	image, _ := formatted(t, smallOptions())
	editJSON(t, image, func(text string) string {
		text = replace(t, `"size":"dynamic"`, `"size":"4096"`)(text)
		return replace(t, `"segments":{"0":{`, `"segments":{"1":{"type":"linear","offset":"2097152","size":"dynamic"},"0":{`)(text)
	})
	refusedBy(t, image, UnlockOptions{Slot: AnySlot}, "AllowWeak", "segment 1: its data is not encrypted")
	v, err := Open(t.Context(), image, -1, []byte("small"), UnlockOptions{Slot: AnySlot, Policy: Policy{AllowWeak: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	list, err := v.Segments()
	if err != nil || len(list) != 2 || list[1].Type != typeLinear || list[1].Size != -1 {
		t.Errorf("%+v, %v", list, err)
	}
}

// A second Argon2 waits for the memory of the first, even of one that was
// given up, and looks again what there is.
func TestArgon2Turn(t *testing.T) {
	k := cheapArgon2
	k.Salt = make([]byte, 32)
	argon2Turn <- struct{}{}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := k.derive(ctx, []byte("x"), 32); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while another has the turn: %v", err)
	}
	setMemory(t, 1<<20, "test")
	time.AfterFunc(10*time.Millisecond, func() { <-argon2Turn })
	if _, err := k.derive(t.Context(), []byte("x"), 32); !errors.Is(err, ErrNoMemory) {
		t.Errorf("after waiting: %v", err)
	}
	setMemory(t, 1<<40, "test")
	if _, err := k.derive(t.Context(), []byte("x"), 32); err != nil {
		t.Errorf("after that: %v", err)
	}
}
