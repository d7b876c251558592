package main

import (
	"context"
	"fmt"
	"math"
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
	memory     size // of the machine that will open the volume
	cpus       int
	fs         *pflag.FlagSet
}

func (k *kdfFlags) register(fs *pflag.FlagSet) {
	k.fs, k.memory = fs, bytesFlag()
	inGroup(fs, flagsKDF, func() {
		fs.StringVar(&k.kind, "pbkdf", "argon2id", "`NAME`: argon2id, argon2i or pbkdf2, which is all that LUKS1 has")
		fs.IntVar(&k.memoryKiB, "pbkdf-memory", 0, "`KIB`: most memory to use; 1048576 unless given, less where there is less")
		fs.IntVar(&k.parallel, "pbkdf-parallel", 0, "`N`: most threads to use; 4 unless given")
		fs.IntVar(&k.iterations, "pbkdf-force-iterations", 0, "`N`: exactly so many iterations, without measuring")
		fs.IntVarP(&k.iterTimeMS, "iter-time", "i", 2000, "`MS`: milliseconds that an unlock is to take on this machine")
		fs.Var(&k.memory, "target-memory", "memory of the machine that will open the volume, if it is another: at most half of that is used")
		fs.IntVar(&k.cpus, "target-cpus", 0, "`N`: processors of that machine")
	})
}

// check refuses numbers that mean nothing.
func (k *kdfFlags) check() error {
	for name, n := range map[string]int{"pbkdf-memory": k.memoryKiB, "pbkdf-parallel": k.parallel, "pbkdf-force-iterations": k.iterations, "iter-time": k.iterTimeMS, "target-cpus": k.cpus} {
		if k.fs.Changed(name) && n < 1 {
			return usagef("", "--%s %d: it must be at least 1", name, n)
		}
	}
	switch k.kind {
	case "argon2id", "argon2i":
	case "pbkdf2":
		for _, name := range []string{"pbkdf-memory", "pbkdf-parallel", "target-memory", "target-cpus"} {
			if k.fs.Changed(name) {
				return usagef("leave it away, or use --pbkdf argon2id", "--%s is for argon2, pbkdf2 has no such cost", name)
			}
		}
	default:
		return usagef("argon2id, argon2i and pbkdf2 are", "--pbkdf %s is not known", k.kind)
	}
	if k.fs.Changed("target-memory") && k.memory.bytes < 1<<20 {
		return usagef("such as --target-memory 512M", "--target-memory %d bytes: no such machine opens volumes", k.memory.bytes)
	}
	if k.fs.Changed("iter-time") && k.fs.Changed("pbkdf-force-iterations") {
		return usagef("leave one of them away", "--iter-time measures and --pbkdf-force-iterations does not: they contradict each other")
	}
	return nil
}

// forGuest takes a small virtual machine as the one that opens the volume,
// where nothing else is said.
func (k *kdfFlags) forGuest() {
	if !k.fs.Changed("target-memory") {
		k.memory.bytes = 1 << 30
	}
	if !k.fs.Changed("target-cpus") {
		k.cpus = 1
	}
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
		MachineKiB:      int(min(k.memory.bytes>>10, math.MaxInt32)),
		MachineCPUs:     k.cpus,
	})
	if err == nil {
		a.detail("key derivation: %s", describeKDF(kdf))
	}
	return kdf, err
}
