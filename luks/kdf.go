package luks

import (
	"context"
	"fmt"
	"runtime/debug"

	"golang.org/x/crypto/argon2"

	"github.com/xtsdisk/xtsdisk/internal/hashes"
	"github.com/xtsdisk/xtsdisk/internal/secret"
)

// Types of key derivation (specification, section 3.2.5).
const (
	KDFArgon2id = "argon2id" // RFC 9106
	KDFArgon2i  = "argon2i"  // RFC 9106
	KDFPBKDF2   = "pbkdf2"   // RFC 8018
)

// KDF is a key derivation function with its costs.
type KDF struct {
	Type       string // KDFArgon2id, KDFArgon2i or KDFPBKDF2
	Hash       string // PBKDF2 only, by cryptsetup's name: "sha256"
	Iterations int    // PBKDF2's iterations, Argon2's passes (time cost)
	MemoryKiB  int    // Argon2 only
	Threads    int    // Argon2 only: lanes
	Salt       []byte // 32 bytes in new keyslots; nil in FormatOptions: random
}

// argon2 tells whether k is one of the memory-hard functions.
func (k KDF) argon2() bool { return k.Type == KDFArgon2id || k.Type == KDFArgon2i }

// String returns the function and its costs, without the salt.
func (k KDF) String() string {
	if k.argon2() {
		return fmt.Sprintf("%s, time %d, memory %d KiB, %d threads", k.Type, k.Iterations, k.MemoryKiB, k.Threads)
	}
	return fmt.Sprintf("%s-%s, %d iterations", k.Type, k.Hash, k.Iterations)
}

// supported returns nil if this package can compute k.
func (k KDF) supported() error {
	switch {
	case k.argon2():
		return nil
	case k.Type == KDFPBKDF2:
		_, err := hashByName(k.Hash)
		return err
	}
	return unsupported("KDF %s", quote(k.Type))
}

// derive computes a key of size bytes. The caller wipes it. It has checked
// that k is supported and that there is memory for it.
//
// When ctx ends, derive returns at once. PBKDF2 stops; Argon2 cannot be
// stopped, so its goroutine goes on to its end and keeps its memory until
// then, with a copy of the passphrase that it clears itself. One Argon2 runs at
// a time, and the next waits for it.
func (k KDF) derive(ctx context.Context, passphrase []byte, size int) ([]byte, error) {
	if !k.argon2() {
		newHash, err := hashByName(k.Hash)
		if err != nil {
			return nil, err
		}
		return pbkdf2(ctx, newHash, passphrase, k.Salt, k.Iterations, size)
	}
	if err := k.waitTurn(ctx); err != nil {
		return nil, err
	}
	own := secret.New(len(passphrase))
	copy(own.Bytes(), passphrase)
	done := make(chan []byte, 1)
	go func() {
		key := k.runArgon2(own.Bytes(), size)
		own.Destroy()
		<-argon2Turn
		done <- key
	}()
	select {
	case key := <-done:
		return key, nil
	case <-ctx.Done():
		go func() { secret.Wipe(<-done) }()
		return nil, ctx.Err()
	}
}

// argon2Turn holds one token while an Argon2 has its memory: two at a time, one
// of them perhaps cancelled and on its way to its end, would need twice what
// was found to be there for one.
var argon2Turn = make(chan struct{}, 1)

// waitTurn takes the turn. Who had to wait looks again whether there is memory.
func (k KDF) waitTurn(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case argon2Turn <- struct{}{}:
		return nil
	default:
	}
	select {
	case argon2Turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := k.affordable(); err != nil {
		<-argon2Turn
		return err
	}
	return nil
}

// runArgon2 gives the function's memory back to the system before it returns:
// x/crypto/argon2 takes it from Go's heap, which would otherwise keep up to
// twice as much, and the next keyslot's would come on top. What its hash
// function has of passphrase and key on the stack and in registers, from where
// a signal would copy it to other memory, is overwritten.
func (k KDF) runArgon2(passphrase []byte, size int) []byte {
	defer debug.FreeOSMemory()
	prepareMemory(k.MemoryKiB)
	secret.EraseStack() // makes room: a stack that grows is left behind as it is
	defer secret.EraseStack()
	run := argon2.IDKey
	if k.Type == KDFArgon2i {
		run = argon2.Key
	}
	key := run(passphrase, k.Salt, uint32(k.Iterations), uint32(k.MemoryKiB), uint8(k.Threads), uint32(size))
	hashes.Forget(hashes.ByName("blake2b-512")())
	return key
}
