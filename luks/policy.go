package luks

import (
	"fmt"
	"slices"
	"time"

	"github.com/xtsdisk/xtsdisk/internal/sector"
)

// Policy bounds what opening a header may cost, and says which weaknesses are
// accepted. A header may come from anyone; the zero value is safe with any.
type Policy struct {
	// MaxKDFMemoryKiB is the most memory that one keyslot's KDF may take; 0
	// means 4 GiB, above which cryptsetup makes no keyslots. The memory that
	// the process may use bounds it in any case.
	MaxKDFMemoryKiB int
	// MaxKDFTime is the most that all KDFs of one opening together may take, as
	// KDF.EstimatedTime has it; 0 means 60 s.
	MaxKDFTime time.Duration
	// AllowWeak accepts ciphers that hide little or nothing (null, ECB, LRW),
	// and data that is not encrypted at all beside data that is.
	AllowWeak bool
	// AllowStripes accepts keyslots whose anti-forensic split has another
	// number of stripes than 4000.
	AllowStripes bool
}

// PolicyError is an ErrPolicy that another Policy would not give.
type PolicyError struct {
	Field string // of Policy: the one to change
	err   error
}

// Error implements error.
func (e *PolicyError) Error() string { return e.err.Error() }

// Unwrap gives ErrPolicy.
func (e *PolicyError) Unwrap() error { return e.err }

func refuse(field, format string, args ...any) error {
	return &PolicyError{field, fmt.Errorf("%w: "+format, append([]any{ErrPolicy}, args...)...)}
}

// Limits of the zero Policy.
const (
	DefaultMaxKDFMemoryKiB = 4 << 20
	DefaultMaxKDFTime      = 60 * time.Second
)

func (p Policy) maxMemoryKiB() int {
	if p.MaxKDFMemoryKiB == 0 {
		return DefaultMaxKDFMemoryKiB
	}
	return p.MaxKDFMemoryKiB
}

func (p Policy) maxTime() time.Duration {
	if p.MaxKDFTime == 0 {
		return DefaultMaxKDFTime
	}
	return p.MaxKDFTime
}

// Rates of KDF.EstimatedTime, those of one core of a fast machine of 2024, so
// that a limit on the estimate never refuses what a slower one has made. They
// are fixed, and stand in docs/threat-model.md: the same header is refused or
// opened everywhere, at once, and without running anything.
const (
	rateArgon2 = 1 << 20 // KiB and pass, a second and lane
	rateLanes  = 4       // lanes beyond which more do not help
	rateHMAC   = 1_000_000
)

// ratePBKDF2 is the number of iterations a second, for one block of output,
// of the hash functions that are faster than rateHMAC.
var ratePBKDF2 = map[string]int{
	"sha1": 5_000_000, "sha224": 5_000_000, "sha256": 5_000_000,
	"sha384": 2_000_000, "sha512": 2_000_000,
}

// EstimatedTime returns how long k takes to derive size bytes, by fixed rates
// and without running it: 1 GiB of memory and pass a second and lane for
// Argon2, up to four lanes; 5 million iterations a second for PBKDF2 with SHA-1
// and SHA-256, 2 million with SHA-512, 1 million with other hashes, for each
// block of output that the hash gives. Machines of ten years ago take about
// four times as long. A KDF that this package does not know takes no time.
func (k KDF) EstimatedTime(size int) time.Duration {
	switch {
	case k.argon2():
		lanes := min(max(k.Threads, 1), rateLanes)
		return seconds(float64(k.MemoryKiB) * float64(k.Iterations) / float64(rateArgon2*lanes))
	case k.Type == KDFPBKDF2:
		newHash, err := hashByName(k.Hash)
		if err != nil {
			return 0
		}
		rate := ratePBKDF2[k.Hash]
		if rate == 0 {
			rate = rateHMAC
		}
		n := newHash().Size()
		return seconds(float64(k.Iterations) * float64((size+n-1)/n) / float64(rate))
	}
	return 0
}

// seconds is s as a duration, bounded: 2^31 passes over 2^31 KiB are more
// nanoseconds than it holds.
func seconds(s float64) time.Duration {
	const most = 1 << 32 // more than a century
	return time.Duration(min(s, most) * float64(time.Second))
}

// budget is what is left of a policy's time while keyslots are tried in turn.
type budget struct {
	policy Policy
	spent  time.Duration // estimated
}

// take returns nil if k may have its memory, and k and the digest d their time
// on top of what was spent, and counts that as spent.
func (b *budget) take(k KDF, size int, d *Digest) error {
	if most := b.policy.maxMemoryKiB(); k.argon2() && k.MemoryKiB > most {
		return refuse("MaxKDFMemoryKiB", "%s needs %d KiB of memory, more than the %d KiB allowed", k.Type, k.MemoryKiB, most)
	}
	need, most := k.EstimatedTime(size), b.policy.maxTime()
	if need > most {
		return refuse("MaxKDFTime", "%s takes about %s, more than the %s allowed", k, round(need), round(most))
	}
	return b.takeTime(need+d.KDF.EstimatedTime(len(d.Value)), "the key derivation and the digest of the key")
}

// takeDigest is take for a digest alone.
func (b *budget) takeDigest(d *Digest) error {
	return b.takeTime(d.KDF.EstimatedTime(len(d.Value)), "the digest of the key")
}

func (b *budget) takeTime(need time.Duration, what string) error {
	most := b.policy.maxTime()
	if b.spent+need <= most {
		b.spent += need
		return nil
	}
	before := ""
	if b.spent > 0 {
		before = fmt.Sprintf(", on top of the %s of those before", round(b.spent))
	}
	return refuse("MaxKDFTime", "%s takes about %s%s, more than the %s allowed", what, round(need), before, round(most))
}

// round leaves of a duration what a person wants to read.
func round(d time.Duration) time.Duration {
	if d > 10*time.Second {
		return d.Round(time.Second)
	}
	return d.Round(time.Millisecond)
}

// Check returns ErrPolicy, and says what, if p does not let the data of h be
// opened whatever the keyslot. Unlock begins with it; it is worth calling
// before a passphrase is asked for.
func (p Policy) Check(h *Header) error {
	if p.AllowWeak {
		return nil
	}
	if name, version := h.onlineRequirement(); version == 1 {
		return refuse("AllowWeak", "requirement %s: nothing vouches for what the header says of the reencryption", name)
	}
	for i := range h.Segments {
		s := &h.Segments[i]
		if s.backup() {
			continue
		}
		if s.Type == typeLinear && !h.reencrypting() {
			return refuse("AllowWeak", "segment %d: its data is not encrypted", s.ID)
		}
		if why := weakness(s.Cipher); why != "" {
			return refuse("AllowWeak", "segment %d: cipher %s %s", s.ID, quote(s.Cipher), why)
		}
	}
	return nil
}

// weakness says why a cipher is one that only AllowWeak opens, or returns "".
func weakness(cipher string) string {
	spec, err := sector.Parse(cipher)
	if err != nil {
		return ""
	}
	return spec.Weakness()
}

// reencrypting tells whether the header says that its data is on its way from
// one key, or none, to another.
func (h *Header) reencrypting() bool {
	return slices.ContainsFunc(h.Config.Requirements, func(r string) bool {
		return r == "offline-reencrypt" || r == "online-reencrypt" || r == "online-reencrypt-v2" || r == "online-reencrypt-v3"
	})
}
