package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/xtsdisk/xtsdisk/luks"
)

// kdfFlags say what trying one passphrase is to cost. Names and units are
// cryptsetup's.
type kdfFlags struct {
	kind       string
	memoryKiB  int
	parallel   int
	iterations int
	iterTimeMS int
	fs         *pflag.FlagSet
}

func (k *kdfFlags) register(fs *pflag.FlagSet) {
	k.fs = fs
	inGroup(fs, flagsKDF, func() {
		fs.StringVar(&k.kind, "pbkdf", "argon2id", "`NAME`: argon2id, argon2i or pbkdf2")
		fs.IntVar(&k.memoryKiB, "pbkdf-memory", 0, "`KIB`: most memory to use; 1048576 unless given, less where there is less")
		fs.IntVar(&k.parallel, "pbkdf-parallel", 0, "`N`: most threads to use; 4 unless given")
		fs.IntVar(&k.iterations, "pbkdf-force-iterations", 0, "`N`: exactly so many iterations, without measuring")
		fs.IntVarP(&k.iterTimeMS, "iter-time", "i", 2000, "`MS`: milliseconds that an unlock is to take on this machine")
	})
}

// check refuses numbers that mean nothing.
func (k *kdfFlags) check() error {
	for name, n := range map[string]int{"pbkdf-memory": k.memoryKiB, "pbkdf-parallel": k.parallel, "pbkdf-force-iterations": k.iterations, "iter-time": k.iterTimeMS} {
		if k.fs.Changed(name) && n < 1 {
			return usagef("", "--%s %d: it must be at least 1", name, n)
		}
	}
	switch k.kind {
	case "argon2id", "argon2i":
	case "pbkdf2":
		for _, name := range []string{"pbkdf-memory", "pbkdf-parallel"} {
			if k.fs.Changed(name) {
				return usagef("leave it away, or use --pbkdf argon2id", "--%s is for argon2, pbkdf2 has no such cost", name)
			}
		}
	default:
		return usagef("argon2id, argon2i and pbkdf2 are", "--pbkdf %s is not known", k.kind)
	}
	if k.fs.Changed("iter-time") && k.fs.Changed("pbkdf-force-iterations") {
		return usagef("leave one of them away", "--iter-time measures and --pbkdf-force-iterations does not: they contradict each other")
	}
	return nil
}

// choose measures what the KDF may cost here.
func (k *kdfFlags) choose(ctx context.Context, a *app, hash string) (luks.KDF, error) {
	if t := time.Duration(k.iterTimeMS) * time.Millisecond; t > time.Minute {
		a.warn(fmt.Sprintf("--iter-time counts milliseconds: every unlock will take %s", t))
	}
	kdf, err := luks.ChooseKDF(ctx, luks.KDFTarget{
		Type: k.kind, Hash: hash,
		IterTime:        time.Duration(k.iterTimeMS) * time.Millisecond,
		MaxMemoryKiB:    k.memoryKiB,
		MaxThreads:      k.parallel,
		ForceIterations: k.iterations,
	})
	if err == nil {
		a.detail("key derivation: %s", describeKDF(kdf))
	}
	return kdf, err
}
