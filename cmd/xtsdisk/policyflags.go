package main

import (
	"errors"
	"math"
	"time"

	"github.com/spf13/pflag"

	"github.com/xtsdisk/xtsdisk/luks"
)

// policyFlags allow what a header from anyone shall not have: a costly key
// derivation, a cipher that hides little.
type policyFlags struct {
	memory size
	time   time.Duration
	weak   bool
}

func (p *policyFlags) register(fs *pflag.FlagSet) {
	p.memory = bytesFlag()
	inGroup(fs, flagsKeys, func() {
		fs.Var(&p.memory, "max-kdf-memory", "memory that the key derivation may take (4G unless given)")
		fs.DurationVar(&p.time, "max-kdf-time", 0, "`TIME`: that the key derivation may take on a fast machine, such as 5m (60s unless given)")
		fs.BoolVar(&p.weak, "allow-weak", false, "open what hides little or nothing: null ciphers, ECB, LRW; and what the header says of a reencryption without a digest of it")
	})
}

func (p *policyFlags) policy() (luks.Policy, error) {
	switch {
	case p.memory.set && p.memory.bytes < 1<<10:
		return luks.Policy{}, usagef("", "--max-kdf-memory %d bytes: at least 1K", p.memory.bytes)
	case p.time < 0:
		return luks.Policy{}, usagef("", "--max-kdf-time %s is negative", p.time)
	}
	return luks.Policy{
		MaxKDFMemoryKiB: int(min(p.memory.bytes>>10, math.MaxInt32)),
		MaxKDFTime:      p.time,
		AllowWeak:       p.weak,
	}, nil
}

// policyHints says, by the field of luks.Policy, what allows what was refused.
var policyHints = map[string]string{
	"MaxKDFMemoryKiB": "if you trust whoever made this volume, --max-kdf-memory allows more",
	"MaxKDFTime":      "if you trust whoever made this volume, --max-kdf-time allows more; --key-slot tries one keyslot only",
	"AllowWeak":       "it is not protected as an encrypted volume should be; --allow-weak reads it nevertheless",
	"AllowStripes":    "no program makes such keyslots",
}

// explainPolicy adds the flag that allows what the policy refused.
func explainPolicy(err error) error {
	var refused *luks.PolicyError
	if !errors.As(err, &refused) || policyHints[refused.Field] == "" {
		return err
	}
	return withHint(err, "%s", policyHints[refused.Field])
}
