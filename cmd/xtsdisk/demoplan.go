package main

import (
	"fmt"
	"time"

	"github.com/xtsdisk/xtsdisk/luks"
)

// What the demo uses beside its images.
const (
	demoSize      = 256 << 20
	demoHeader    = 16 << 20 // of the LUKS2 volume
	demoMinimum   = 8 << 20
	demoSpare     = 2 << 20  // of disk space, for the filesystem's own needs
	demoWorking   = 80 << 20 // of memory, for the program and its buffers
	demoKDFLeast  = 16 << 20 // of memory; the KDF gets more where there is more
	demoIterTime  = time.Second
	demoKDFShare  = 8 // the KDF gets that part of what is left: it runs often, and the Go heap does not shrink at once
	demoKDFMostKB = 1 << 20
	demoRounds    = 3
	demoPatience  = 7 * time.Second // after that no round is begun
)

// demoPlan is how large the demo can be here.
type demoPlan struct {
	want   int64 // size of the image that was asked for
	size   int64 // of the image
	kdfKiB int   // at most, for the KDF
	why    string
}

// planDemo shrinks the wanted size to what disk space and memory allow. The
// image, the volume and the decrypted image are there at once. free is the disk
// space (-1: unknown); inMemory says that files take memory too, as in tmpfs.
func planDemo(want, free int64, inMemory bool, memory uint64, memoryWhy, dir string) (demoPlan, error) {
	p := demoPlan{want: want, size: want}
	if fits := (free - demoHeader - demoSpare) / 3; free >= 0 && fits < p.size {
		p.size, p.why = fits, fmt.Sprintf("%s has %s left", dir, formatSize(free))
	}
	left := int64(min(memory, 1<<60)) - demoWorking
	if inMemory {
		if fits := (left - demoKDFLeast - demoHeader) / 3; fits < p.size {
			p.size, p.why = fits, fmt.Sprintf("%s is kept in memory, and there are %s (%s)", dir, formatSize(int64(memory)), memoryWhy)
		}
		left -= 3*p.size + demoHeader
	}
	p.size -= p.size % demoChunk
	switch {
	case p.size < demoMinimum:
		return p, &failure{exitIO, fmt.Errorf("no room for even a small demo: %s; it takes %s", p.why, formatSize(3*demoMinimum+demoHeader+demoSpare)),
			"name a folder with more room:  TMPDIR=FOLDER"}
	case left < demoKDFLeast:
		return p, &failure{exitMemory, fmt.Errorf("the demo needs %s of memory, and there are %s (%s)", formatSize(demoWorking+demoKDFLeast), formatSize(int64(memory)), memoryWhy), "end other programs, or raise the limit"}
	}
	p.kdfKiB = int(min(max(left/demoKDFShare, demoKDFLeast)>>10, demoKDFMostKB))
	return p, nil
}

// planHere is planDemo for a folder of this machine.
func planHere(want int64, dir string) (demoPlan, error) {
	free, inMemory := freeSpace(dir)
	memory, why := luks.AvailableMemory()
	return planDemo(want, free, inMemory, memory, why, dir)
}
