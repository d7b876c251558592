package luks

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/xtsdisk/xtsdisk/internal/secret"
)

// Defaults and limits of cryptsetup 2.6 for new keyslots.
const (
	defaultIterTime     = 2 * time.Second
	defaultMemoryKiB    = 1 << 20
	minMemoryKiB        = 32
	maxMemoryNewKiB     = 4 << 20
	maxThreadsNew       = 4
	minArgon2Passes     = 4
	minPBKDF2Iterations = 1000
	defaultHash         = "sha256"
	digestIterTime      = 125 * time.Millisecond
)

// KDFTarget says what ChooseKDF is to aim at. Zero values are cryptsetup's
// defaults.
type KDFTarget struct {
	Type            string        // KDFArgon2id (default), KDFArgon2i or KDFPBKDF2
	Hash            string        // PBKDF2 only; default "sha256"
	IterTime        time.Duration // time that the KDF is to take on this machine; default 2 s
	MaxMemoryKiB    int           // Argon2 only; default 1 GiB, at least 32 KiB, at most 4 GiB
	MaxThreads      int           // Argon2 only; default and at most 4
	KeySize         int           // bytes to derive, those of the keyslot's cipher: PBKDF2's time depends on it; default 64
	MachineKiB      int           // Argon2 only: memory of the machine that will open the volume; 0: what this one has now
	MachineCPUs     int           // Argon2 only: its processors; 0: this one's
	ForceIterations int           // nothing is measured: exactly this many; at least 4 (Argon2) or 1000 (PBKDF2)
}

// ChooseKDF measures this machine and returns costs that take about IterTime
// on it: for Argon2 as much memory as MaxMemoryKiB and half of AvailableMemory
// allow, no more threads than there are processors, and the number of passes
// that takes the time, at least four (then less memory); for PBKDF2 the number
// of iterations. It takes about as long as IterTime itself.
//
// With MachineKiB or MachineCPUs the volume is meant to be opened on another
// machine: then half of its memory is a bound too, and its processors count
// instead of this one's. That they are as fast as this one's is assumed.
//
// With ForceIterations nothing is measured, and a MaxMemoryKiB that is given is
// taken exactly; ErrNoMemory if there is less. Values outside their limits are
// ErrOption, an unknown type or hash ErrUnsupported.
func ChooseKDF(ctx context.Context, t KDFTarget) (KDF, error) {
	exact := t.ForceIterations > 0 && t.MaxMemoryKiB > 0
	t.setDefaults()
	k := KDF{Type: t.Type, Hash: t.Hash, Iterations: t.ForceIterations}
	if k.argon2() {
		k.Hash = ""
	}
	if err := t.check(k); err != nil {
		return KDF{}, err
	}
	if !k.argon2() {
		if t.ForceIterations == 0 {
			return choosePBKDF2(ctx, k, t.KeySize, t.IterTime)
		}
		return k, nil
	}
	k.Threads = min(t.MaxThreads, runtime.GOMAXPROCS(0))
	if t.MachineCPUs > 0 {
		k.Threads = min(t.MaxThreads, t.MachineCPUs)
	}
	k.MemoryKiB = t.MaxMemoryKiB
	if t.MachineKiB > 0 {
		k.MemoryKiB = max(min(t.MaxMemoryKiB, t.MachineKiB/2), minMemoryKiB, 8*k.Threads)
	}
	if exact {
		return k, k.affordable()
	}
	k.MemoryKiB = boundedMemory(k.MemoryKiB, k.Threads)
	if t.ForceIterations == 0 {
		return chooseArgon2(ctx, k, t.IterTime)
	}
	return k, nil
}

func (t *KDFTarget) setDefaults() {
	if t.Type == "" {
		t.Type = KDFArgon2id
	}
	if t.Hash == "" {
		t.Hash = defaultHash
	}
	if t.IterTime == 0 {
		t.IterTime = defaultIterTime
	}
	if t.MaxMemoryKiB == 0 {
		t.MaxMemoryKiB = defaultMemoryKiB
	}
	if t.MaxThreads == 0 {
		t.MaxThreads = maxThreadsNew
	}
	if t.KeySize == 0 {
		t.KeySize = defaultKeySize
	}
}

func (t *KDFTarget) check(k KDF) error {
	if err := k.supported(); err != nil {
		return err
	}
	switch {
	case t.IterTime < 0:
		return fmt.Errorf("%w: KDF time %v", ErrOption, t.IterTime)
	case t.MachineKiB < 0 || t.MachineCPUs < 0:
		return fmt.Errorf("%w: a machine with %d KiB and %d processors", ErrOption, t.MachineKiB, t.MachineCPUs)
	case t.KeySize < 1 || t.KeySize > maxKeySize:
		return fmt.Errorf("%w: key of %d bytes", ErrOption, t.KeySize)
	case k.argon2() && (t.MaxMemoryKiB < minMemoryKiB || t.MaxMemoryKiB > maxMemoryNewKiB):
		return fmt.Errorf("%w: KDF memory %d KiB is not from %d to %d", ErrOption, t.MaxMemoryKiB, minMemoryKiB, maxMemoryNewKiB)
	case k.argon2() && (t.MaxThreads < 1 || t.MaxThreads > maxThreadsNew):
		return fmt.Errorf("%w: %d KDF threads are not from 1 to %d", ErrOption, t.MaxThreads, maxThreadsNew)
	case t.ForceIterations != 0:
		return k.checkIterations()
	}
	return nil
}

func (k KDF) checkIterations() error {
	least := minPBKDF2Iterations
	if k.argon2() {
		least = minArgon2Passes
	}
	if k.Iterations < least || k.Iterations > maxIterations {
		return fmt.Errorf("%w: %d iterations of %s are not from %d to %d", ErrOption, k.Iterations, k.Type, least, maxIterations)
	}
	return nil
}

// checkNew returns nil if new keyslots may have these costs: those that
// cryptsetup makes too.
func (k KDF) checkNew() error {
	if err := k.supported(); err != nil {
		return err
	}
	if err := k.checkIterations(); err != nil {
		return err
	}
	if k.Type == KDFPBKDF2 {
		if err := checkNewHash(k.Hash); err != nil {
			return err
		}
	}
	if n := len(k.Salt); n != 0 && n != newSaltSize {
		return fmt.Errorf("%w: KDF salt of %d bytes, not %d", ErrOption, n, newSaltSize)
	}
	if !k.argon2() {
		return nil
	}
	if k.Threads < 1 || k.Threads > maxThreadsNew {
		return fmt.Errorf("%w: %d KDF threads are not from 1 to %d", ErrOption, k.Threads, maxThreadsNew)
	}
	if k.MemoryKiB < minMemoryKiB || k.MemoryKiB < 8*k.Threads || k.MemoryKiB > maxMemoryNewKiB {
		return fmt.Errorf("%w: KDF memory %d KiB is not from %d to %d", ErrOption, k.MemoryKiB, minMemoryKiB, maxMemoryNewKiB)
	}
	return nil
}

// boundedMemory is the memory to aim at, in KiB: half of what there is is left
// to the rest of the program and to the machine that opens the volume next.
func boundedMemory(most, threads int) int {
	have, _ := availableMemory()
	kib := min(uint64(most), have/2>>10)
	return max(int(kib), minMemoryKiB, 8*threads)
}

// chooseArgon2 takes the cost as proportional to memory times passes. A small
// run gives a first rate, and a second run of about a quarter of the target,
// at a size where caches no longer help, the one to go by. k has the most
// memory to use.
func chooseArgon2(ctx context.Context, k KDF, target time.Duration) (KDF, error) {
	most := k.MemoryKiB
	k.MemoryKiB, k.Iterations = min(most, 16<<10), 1
	for _, share := range []float64{0.25, 1} {
		d, err := k.measure(ctx, 32)
		if err != nil {
			return KDF{}, err
		}
		rate := float64(k.MemoryKiB) * float64(k.Iterations) / d.Seconds()
		k = k.spend(rate*target.Seconds()*share, most)
	}
	return k, nil
}

// spend gives k a total of KiB times passes: as much memory as there is, if
// that leaves the least number of passes.
func (k KDF) spend(total float64, most int) KDF {
	if total >= float64(most)*minArgon2Passes {
		k.MemoryKiB = most
		k.Iterations = int(min(total/float64(most), maxIterations))
		return k
	}
	k.MemoryKiB = max(int(total/minArgon2Passes), minMemoryKiB, 8*k.Threads)
	k.Iterations = minArgon2Passes
	return k
}

// choosePBKDF2 doubles the iterations until the time is long enough to tell.
func choosePBKDF2(ctx context.Context, k KDF, size int, target time.Duration) (KDF, error) {
	enough := min(target/4, 100*time.Millisecond)
	for k.Iterations = minPBKDF2Iterations; ; k.Iterations *= 2 {
		d, err := k.measure(ctx, size)
		if err != nil {
			return KDF{}, err
		}
		if d >= enough || k.Iterations > maxIterations/2 {
			n := float64(k.Iterations) * target.Seconds() / d.Seconds()
			k.Iterations = int(max(minPBKDF2Iterations, min(n, maxIterations)))
			return k, nil
		}
	}
}

// measure runs the KDF once for a key of size bytes.
func (k KDF) measure(ctx context.Context, size int) (time.Duration, error) {
	k.Salt = make([]byte, newSaltSize)
	start := time.Now()
	key, err := k.derive(ctx, []byte("measure"), size)
	secret.Wipe(key)
	return max(time.Since(start), time.Microsecond), err
}
