package probe

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/xtsdisk/xtsdisk/internal/testenv"
)

// tables are what fdisk is told: a GPT with a gap in its numbers and names, and
// an MBR with logical partitions.
var tables = map[string]struct{ commands, columns string }{
	"gpt": {"g n 1 2048 3071 n 3 4096 5119 x n 1 EFI-System n 3 größe r w", "Device,Start,Sectors,Type-UUID,Name"},
	"dos": {"o n p 1 2048 3071 n e 2 4096 12287 n l 6144 7167 n l 9216 9727 n l 11776 12287 n p 3 13312 14335 w", "Device,Start,Sectors,Id"},
}

// fdiskImage returns a disk of 16384 sectors with a table made by fdisk, and
// what fdisk says is in it.
func fdiskImage(t *testing.T, kind string, sector int) ([]byte, []Partition) {
	t.Helper()
	tool := testenv.Tool(t, "fdisk")
	path := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(path, make([]byte, 16384*sector), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(stdin string, args ...string) string {
		cmd := exec.Command(tool, append([]string{"-b", fmt.Sprint(sector)}, append(args, path)...)...)
		cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
		cmd.Stdin = strings.NewReader(stdin)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("fdisk: %v: %s", err, out)
		}
		return string(out)
	}
	run(strings.Join(strings.Fields(tables[kind].commands), "\n") + "\n")
	var want []Partition
	for line := range strings.Lines(run("", "-l", "-o", tables[kind].columns)) {
		var p Partition
		words := strings.Fields(line)
		if len(words) < 4 || !strings.HasPrefix(words[0], path) {
			continue
		}
		if _, err := fmt.Sscan(strings.TrimPrefix(words[0], path)+" "+words[1]+" "+words[2], &p.Number, &p.Off, &p.Size); err != nil {
			t.Fatal(err)
		}
		p.Off, p.Size, p.Type = p.Off*int64(sector), p.Size*int64(sector), strings.ToLower(words[3])
		if len(words) > 4 {
			p.Name = words[4]
		}
		if p.Type != "5" { // a partition that holds others is not one of data
			want = append(want, p)
		}
	}
	image, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return image, want
}

// fdisk is the judge of numbers, places, types and names.
func TestTableAsFdisk(t *testing.T) {
	for kind, n := range map[string]int{"gpt": 2, "dos": 5} {
		for _, sector := range []int{512, 4096} {
			t.Run(fmt.Sprint(kind, sector), func(t *testing.T) {
				image, want := fdiskImage(t, kind, sector)
				if len(want) != n {
					t.Fatalf("fdisk made %v", want)
				}
				if kind == "dos" { // what a table of 4096-byte sectors is told by
					copy(image[want[1].Off:], "LUKS\xba\xbe\x00\x02")
				}
				got, err := ReadTable(bytes.NewReader(image), int64(len(image)))
				if err != nil {
					t.Fatal(err)
				}
				if got.SectorSize != sector || len(got.Warnings) > 0 {
					t.Errorf("sectors of %d bytes, warnings %q", got.SectorSize, got.Warnings)
				}
				slices.SortFunc(want, func(a, b Partition) int { return a.Number - b.Number })
				if fmt.Sprint(got.Partitions) != fmt.Sprint(want) {
					t.Errorf("got  %v\nwant %v", got.Partitions, want)
				}
			})
		}
	}
}

// gptImage is a GPT of our own making, for what sfdisk would not write: one
// partition, 64 sectors of 512 bytes, the second copy at the end.
func gptImage() []byte {
	image := make([]byte, 64*512)
	entry := make([]byte, 128)
	copy(entry, "typetypetypetype")
	binary.LittleEndian.PutUint64(entry[32:], 40)
	binary.LittleEndian.PutUint64(entry[40:], 47)
	for _, at := range []struct{ header, entries uint64 }{{1, 2}, {63, 59}} {
		copy(image[at.entries*512:], entry)
		h := image[at.header*512:]
		copy(h, "EFI PART\x00\x00\x01\x00\x5c\x00\x00\x00")
		binary.LittleEndian.PutUint64(h[24:], at.header)
		binary.LittleEndian.PutUint64(h[32:], 64-at.header)
		binary.LittleEndian.PutUint64(h[72:], at.entries)
		binary.LittleEndian.PutUint32(h[80:], 16)
		binary.LittleEndian.PutUint32(h[84:], 128)
		seal(image, at.header*512)
	}
	return image
}

// seal makes the checksums of a GPT right, as far as its fields allow.
func seal(image []byte, off uint64) {
	h := image[off:]
	le := binary.LittleEndian
	from, n := le.Uint64(h[72:])*512, uint64(le.Uint32(h[80:]))*uint64(le.Uint32(h[84:]))
	if from < uint64(len(image)) && n <= uint64(len(image))-from {
		le.PutUint32(h[88:], crc32.ChecksumIEEE(image[from:][:n]))
	}
	clear(h[16:20])
	if size := le.Uint32(h[12:]); size <= 512 {
		le.PutUint32(h[16:], crc32.ChecksumIEEE(h[:size]))
	}
}

func readTable(image []byte) (*Table, error) {
	return ReadTable(bytes.NewReader(image), int64(len(image)))
}

func TestGPTBackup(t *testing.T) {
	for name, damage := range map[string]func(h []byte){
		"checksum": func(h []byte) { h[40]++ },
		"entries":  func(h []byte) { h[512]++ },
		"gone":     func(h []byte) { clear(h[:512]) },
	} {
		image := gptImage()
		damage(image[512:])
		got, err := readTable(image)
		if err != nil || len(got.Partitions) != 1 || got.Partitions[0].Off != 40*512 || got.Partitions[0].Size != 8*512 {
			t.Fatalf("%s: %+v, %v", name, got, err)
		}
		if len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], "backup at offset 32256") {
			t.Errorf("%s: warnings %q", name, got.Warnings)
		}
	}
	image := gptImage()
	image[512+40]++
	image[63*512+40]++
	if _, err := readTable(image); !errors.Is(err, ErrTable) || !strings.Contains(err.Error(), "checksum") {
		t.Errorf("both damaged: %v", err)
	}
}

// Each field wrong once, with right checksums.
func TestGPTFields(t *testing.T) {
	le := binary.LittleEndian
	for name, change := range map[string]func(h []byte){
		"my lba":            func(h []byte) { le.PutUint64(h[24:], 2) },
		"header too short":  func(h []byte) { le.PutUint32(h[12:], 91) },
		"header too long":   func(h []byte) { le.PutUint32(h[12:], 513) },
		"header huge":       func(h []byte) { le.PutUint32(h[12:], 1<<31) },
		"entries far away":  func(h []byte) { le.PutUint64(h[72:], 1<<63-1) },
		"entries at -1":     func(h []byte) { le.PutUint64(h[72:], 1<<64-1) },
		"entries over end":  func(h []byte) { le.PutUint64(h[72:], 61) },
		"entry too small":   func(h []byte) { le.PutUint32(h[84:], 64) },
		"entry odd":         func(h []byte) { le.PutUint32(h[84:], 136) },
		"entry huge":        func(h []byte) { le.PutUint32(h[84:], 1<<31) },
		"entries many":      func(h []byte) { le.PutUint32(h[80:], 1<<32-1) },
		"entries over size": func(h []byte) { le.PutUint32(h[80:], 1<<13); le.PutUint32(h[84:], 128) },
	} {
		image := gptImage()
		clear(image[63*512:]) // no second copy
		change(image[512:])
		seal(image, 512)
		if got, err := readTable(image); !errors.Is(err, ErrTable) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	for name, place := range map[string][2]uint64{
		"at 0": {0, 5}, "backwards": {40, 39}, "behind the end": {64, 65}, "far": {1 << 60, 1<<60 + 1}, "whole": {1, 1<<64 - 1},
	} {
		image := gptImage()
		le.PutUint64(image[1024+32:], place[0])
		le.PutUint64(image[1024+40:], place[1])
		seal(image, 512)
		if got, err := readTable(image); err != nil || len(got.Partitions) != 0 || len(got.Warnings) != 1 {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// putMBR writes one entry of a table.
func putMBR(sector []byte, i int, kind byte, first, n uint32) {
	e := sector[446+16*i:]
	e[4] = kind
	binary.LittleEndian.PutUint32(e[8:], first)
	binary.LittleEndian.PutUint32(e[12:], n)
	sector[510], sector[511] = 0x55, 0xaa
}

func TestMBRHostile(t *testing.T) {
	image := make([]byte, 64*512)
	putMBR(image, 0, 0x83, 40, 8)
	putMBR(image, 1, 0x05, 4, 30)
	putMBR(image[4*512:], 0, 0x83, 1, 2)
	for name, c := range map[string]struct {
		do   func()
		want int // partitions
		warn string
	}{
		"loop to itself": {func() { putMBR(image[4*512:], 1, 0x05, 0, 9) }, 2, "does not end"},
		"loop of two": {func() {
			putMBR(image[4*512:], 1, 0x05, 3, 9)
			putMBR(image[7*512:], 0, 0x83, 1, 1)
			putMBR(image[7*512:], 1, 0x05, 0, 9)
		}, 3, "does not end"},
		"link to nowhere":    {func() { putMBR(image[4*512:], 1, 0x05, 1<<32-1, 9) }, 2, "no table"},
		"link to no table":   {func() { putMBR(image[4*512:], 1, 0x05, 20, 9) }, 2, "no table"},
		"behind the end":     {func() { putMBR(image[4*512:], 1, 0, 0, 0); putMBR(image[4*512:], 0, 0x83, 1<<32-1, 9) }, 1, "not on this disk"},
		"longer than it all": {func() { putMBR(image, 0, 0x83, 40, 1<<32-1); putMBR(image[4*512:], 0, 0x83, 1, 2) }, 2, ""},
	} {
		saved := bytes.Clone(image)
		c.do()
		got, err := readTable(image)
		if err != nil || len(got.Partitions) != c.want || !strings.Contains(strings.Join(got.Warnings, ";"), c.warn) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		copy(image, saved)
	}
	// A chain without end that never comes back to the same place.
	long := make([]byte, 1024*512)
	putMBR(long, 0, 0x05, 1, 1000)
	for i := 1; i < 1000; i++ {
		putMBR(long[i*512:], 1, 0x05, uint32(i), 1)
	}
	if got, err := readTable(long); err != nil || len(got.Warnings) != 1 {
		t.Errorf("long chain: %+v, %v", got, err)
	}
	putMBR(image, 0, 0xee, 1, 63)
	if _, err := readTable(image); !errors.Is(err, ErrTable) {
		t.Errorf("protective MBR without GPT: %v", err)
	}
	if _, err := readTable(make([]byte, 4096)); !errors.Is(err, ErrNoTable) {
		t.Errorf("zeros: %v", err)
	}
	if _, err := readTable(nil); !errors.Is(err, ErrNoTable) {
		t.Errorf("nothing: %v", err)
	}
}

// Tables with bytes changed at random, checksums made right again: what comes
// out lies on the disk, in no time.
func TestTableRandom(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	mbr := make([]byte, 64*512)
	putMBR(mbr, 0, 0x83, 40, 8)
	putMBR(mbr, 1, 0x05, 4, 30)
	putMBR(mbr[4*512:], 0, 0x83, 1, 2)
	putMBR(mbr[4*512:], 1, 0x05, 8, 9)
	putMBR(mbr[12*512:], 0, 0x83, 1, 2)
	for i := range 3000 {
		image := bytes.Clone(mbr)
		if i%2 == 0 {
			image = gptImage()
		}
		for range 1 + rng.IntN(4) {
			at := []int{446, 512, 1024, 4*512 + 446, 12*512 + 446, 63 * 512}[rng.IntN(6)] + rng.IntN(100)
			image[min(at, len(image)-1)] = byte(rng.Uint32() >> (8 * rng.IntN(4)))
		}
		if i%2 == 0 {
			seal(image, 512)
			seal(image, 63*512)
		}
		start := time.Now()
		got, err := readTable(image)
		if err != nil && !errors.Is(err, ErrTable) && !errors.Is(err, ErrNoTable) {
			t.Fatal(err)
		}
		if d := time.Since(start); d > 2*time.Second {
			t.Errorf("image %d took %v", i, d)
		}
		if got == nil {
			continue
		}
		for _, p := range got.Partitions {
			if p.Off <= 0 || p.Off >= int64(len(image)) || p.Size <= 0 || p.Off > 1<<62 || p.Number < 1 {
				t.Fatalf("image %d: %+v", i, p)
			}
		}
	}
}

func FuzzReadTable(f *testing.F) {
	f.Add(gptImage())
	f.Fuzz(func(t *testing.T, image []byte) {
		if got, err := readTable(image); (got == nil) == (err == nil) {
			t.Fatal(got, err)
		}
	})
}
