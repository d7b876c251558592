package probe

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/xtsdisk/xtsdisk/internal/testenv"
)

// image is made of pieces of bytes at offsets; of two that overlap the one with
// the higher offset wins.
type image struct {
	size   int
	pieces map[int]string
}

func (m image) bytes() []byte {
	b := make([]byte, m.size)
	for _, off := range slices.Sorted(maps.Keys(m.pieces)) {
		copy(b[off:], m.pieces[off])
	}
	return b
}

func le(n int, v uint64) string {
	b := binary.LittleEndian.AppendUint64(nil, v)
	return string(b[:n])
}

func be(n int, v uint64) string {
	b := binary.BigEndian.AppendUint64(nil, v)
	return string(b[8-n:])
}

const mib = 1 << 20

// partition is one MBR entry: boot indicator, type, first sector, sectors.
func partition(boot, kind byte, first, n uint32) string {
	return string([]byte{boot, 0, 0, 0, kind, 0, 0, 0}) + le(4, uint64(first)) + le(4, uint64(n))
}

func fat(bytesPerSector uint64, name string) map[int]string {
	return map[int]string{
		0: "\xeb\x3c\x90mkfs.fat", 11: le(2, bytesPerSector), 13: "\x04", 14: le(2, 1), 16: "\x02",
		21: "\xf8", 54: name, 510: "\x55\xaa",
	}
}

func with(pieces map[int]string, off int, s string) map[int]string {
	pieces[off] = s
	return pieces
}

// Layouts written down from the structures' descriptions; where blkid is
// installed TestBlkidAgrees has it look at the same bytes.
var cases = []struct {
	name  string
	image image
	want  string // name@offset/block size, ...
	limit int    // LogicalSector
	blkid string // what blkid calls it; "" where it wants more than a signature
}{
	{"empty", image{mib, nil}, "", 512, ""},
	{"no bytes", image{0, nil}, "", 512, ""},
	{"protective MBR and GPT 512", image{mib, map[int]string{
		446: partition(0, 0xee, 1, 2047), 510: "\x55\xaa", 512: gptMagic, 512 + 24: le(8, 1)}}, "gpt@512/512", 512, ""},
	{"GPT 4096", image{mib, map[int]string{4096: gptMagic, 4096 + 24: le(8, 1)}}, "gpt@4096/4096", 4096, ""},
	{"GPT whose number is wrong", image{mib, map[int]string{512: gptMagic, 512 + 24: le(8, 2)}}, "", 512, ""},
	{"backup GPT", image{mib, map[int]string{mib - 512: gptMagic, mib - 512 + 24: le(8, 2047)}}, "gpt@1048064/512", 512, ""},
	{"backup GPT 4096", image{mib, map[int]string{mib - 4096: gptMagic, mib - 4096 + 24: le(8, 255)}}, "gpt@1044480/4096", 4096, ""},
	{"GPT with a filesystem's magic inside", image{mib, map[int]string{
		4096: gptMagic, 4096 + 24: le(8, 1), 1024 + 56: le(2, 0xef53)}}, "gpt@4096/4096 ext2@1024/1024", 4096, ""},
	{"MBR", image{mib, map[int]string{446: partition(0x80, 0x83, 63, 1000), 510: "\x55\xaa"}}, "mbr@0/512", 512, ""},
	{"MBR without entries", image{mib, map[int]string{510: "\x55\xaa"}}, "", 512, ""},
	{"MBR with a wrong indicator", image{mib, map[int]string{446: partition(1, 0x83, 63, 1000), 510: "\x55\xaa"}}, "", 512, ""},
	{"FAT16 of 512", image{mib, fat(512, "FAT16   ")}, "vfat@0/512", 512, ""},
	{"FAT16 of 4096", image{mib, fat(4096, "FAT16   ")}, "vfat@0/4096", 4096, ""},
	{"FAT with no copies", image{mib, with(fat(512, "FAT16   "), 16, "\x00")}, "", 512, ""},
	{"NTFS of 4096", image{mib, with(fat(4096, ""), 3, "NTFS    ")}, "ntfs@0/4096", 4096, ""},
	{"exFAT", image{mib, map[int]string{3: "EXFAT   ", 108: "\x09", 510: "\x55\xaa"}}, "exfat@0/512", 512, ""},
	{"BitLocker", image{mib, with(fat(512, ""), 3, "-FVE-FS-")}, "bitlocker@0/512", 512, ""},
	{"ext2", image{mib, map[int]string{1024 + 56: le(2, 0xef53), 1024 + 92: le(4, 0)}}, "ext2@1024/1024", 512, "ext2"},
	{"ext3", image{mib, map[int]string{1024 + 24: le(4, 2), 1024 + 56: le(2, 0xef53), 1024 + 92: le(4, 4)}}, "ext3@1024/4096", 4096, "ext3"},
	{"ext4", image{mib, map[int]string{1024 + 24: le(4, 2), 1024 + 56: le(2, 0xef53), 1024 + 92: le(4, 4), 1024 + 96: le(4, 0x42)}}, "ext4@1024/4096", 4096, "ext4"},
	{"ext4 by a read-only feature", image{mib, map[int]string{1024 + 56: le(2, 0xef53), 1024 + 92: le(4, 4), 1024 + 100: le(4, 8)}}, "ext4@1024/1024", 512, "ext4"},
	{"journal device", image{mib, map[int]string{1024 + 56: le(2, 0xef53), 1024 + 96: le(4, 8)}}, "jbd@1024/1024", 512, "jbd"},
	{"ext with impossible blocks", image{mib, map[int]string{1024 + 24: le(4, 7), 1024 + 56: le(2, 0xef53)}}, "", 512, ""},
	{"XFS with sectors of no power", image{mib, map[int]string{0: "XFSB", 102: be(2, 4095)}}, "", 512, ""},
	{"btrfs", image{mib, map[int]string{65536 + 64: "_BHRfS_M", 65536 + 144: le(4, 4096)}}, "btrfs@65536/4096", 4096, ""},
	{"ISO 9660", image{mib, map[int]string{32768: "\x01CD001\x01"}}, "iso9660@32768/2048", 512, "iso9660"},
	{"SquashFS", image{mib, map[int]string{0: "hsqs", 28: le(2, 4)}}, "squashfs@0/1024", 512, "squashfs"},
	{"f2fs", image{mib, map[int]string{1024: le(4, 0xf2f52010), 1024 + 4: le(2, 1), 1024 + 8: le(4, 9)}}, "f2fs@1024/512", 512, ""},
	{"EROFS", image{mib, map[int]string{1024: le(4, 0xe0f5e1e2), 1024 + 12: "\x0c"}}, "erofs@1024/4096", 4096, ""},
	{"JFS", image{mib, map[int]string{32768: "JFS1", 32768 + 24: le(4, 512)}}, "jfs@32768/512", 512, ""},
	{"ReiserFS", image{mib, map[int]string{65536 + 52: "ReIsEr2Fs", 65536 + 44: le(2, 4096)}}, "reiserfs@65536/4096", 4096, ""},
	{"APFS", image{mib, map[int]string{32: "NXSB", 36: le(4, 4096)}}, "apfs@0/4096", 4096, ""},
	{"HFS+", image{mib, map[int]string{1024: "H+", 1026: be(2, 4)}}, "hfsplus@1024/512", 512, ""},
	{"swap of 64 KiB pages", image{mib, map[int]string{65536 - 10: "SWAPSPACE2"}}, "swap@0/65536", 4096, ""},
	{"LVM", image{mib, map[int]string{512: "LABELONE" + le(8, 1), 512 + 24: "LVM2 001"}}, "lvm2@512/512", 512, ""},
	{"RAID 1.2", image{mib, map[int]string{4096: le(4, 0xa92b4efc)}}, "linux_raid@4096/512", 512, ""},
	{"RAID 1.0", image{mib, map[int]string{mib - 8192: le(4, 0xa92b4efc)}}, "linux_raid@1040384/512", 512, ""},
	{"RAID 0.90", image{mib, map[int]string{mib - 65536: le(4, 0xa92b4efc)}}, "linux_raid@983040/512", 512, ""},
	{"dm-integrity", image{mib, map[int]string{0: "integrt\x00\x01"}}, "dm-integrity@0/512", 512, "DM_integrity"},
	{"dm-verity", image{mib, map[int]string{0: "verity\x00\x00\x01"}}, "dm-verity@0/512", 512, "DM_verity_hash"},
	{"ZFS", image{mib, map[int]string{131072 + 5*1024: le(8, 0x00bab10c)}}, "zfs@136192/512", 512, ""},
	{"LUKS1", image{mib, map[int]string{0: "LUKS\xba\xbe\x00\x01"}}, "luks1@0/512", 512, "crypto_LUKS"},
	{"LUKS of another version", image{mib, map[int]string{0: "LUKS\xba\xbe\x00\x03"}}, "", 512, ""},
	{"LUKS2 by its second header", image{mib, map[int]string{32768: "SKUL\xba\xbe\x00\x02", 32768 + 256: be(8, 32768)}}, "luks2@32768/512", 512, ""},
	{"a LUKS2 file in a filesystem", image{mib, map[int]string{32768: "SKUL\xba\xbe\x00\x02", 32768 + 256: be(8, 16384)}}, "", 512, ""},
	{"qcow2", image{mib, map[int]string{0: "QFI\xfb\x00\x00\x00\x03"}}, "qcow2@0/512", 512, ""},
	{"truncated in the superblock", image{1024 + 58, map[int]string{1024 + 56: le(2, 0xef53)}}, "ext2@1024/1024", 512, ""},
	{"truncated before the superblock", image{1024 + 57, map[int]string{1024 + 56: "\x53"}}, "", 512, ""},
}

func show(found []Found) string {
	var parts []string
	for _, f := range found {
		parts = append(parts, fmt.Sprintf("%s@%d/%d", f.Name, f.Off, f.BlockSize))
	}
	return strings.Join(parts, " ")
}

func TestIdentify(t *testing.T) {
	for _, c := range cases {
		b := c.image.bytes()
		r := bytes.NewReader(b)
		if got := show(Identify(r, int64(len(b)))); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		if got := LogicalSector(r, int64(len(b))); got != c.limit {
			t.Errorf("%s: logical sector %d, want %d", c.name, got, c.limit)
		}
	}
}

// With zeros in its places nothing is found any more, and each place is one by
// which something was found.
func TestPlaces(t *testing.T) {
	for _, c := range cases {
		b := c.image.bytes()
		size := int64(len(b))
		places := Places(bytes.NewReader(b), size)
		if (len(places) == 0) != (c.want == "") && c.name != "MBR without entries" && c.name != "MBR with a wrong indicator" && c.name != "FAT with no copies" {
			t.Errorf("%s: places %v", c.name, places)
		}
		for _, off := range places {
			end := min(off+SectorSize, size)
			if len(bytes.Trim(b[off:end], "\x00")) == 0 && !strings.HasPrefix(c.want, "gpt") {
				t.Errorf("%s: nothing lies at %d", c.name, off)
			}
			clear(b[off:end])
		}
		if left := Identify(bytes.NewReader(b), size); left != nil {
			t.Errorf("%s: %v is left", c.name, left)
		}
	}
}

// Copies that show only when the first one is gone.
func TestPlacesOfCopies(t *testing.T) {
	const size = 80 * mib
	for _, c := range []struct {
		name   string
		pieces map[int]string
		want   []int64
	}{
		{"GPT, both ends and both sector sizes", map[int]string{
			512: gptMagic, 512 + 24: le(8, 1), 4096: gptMagic, 4096 + 24: le(8, 1),
			size - 512: gptMagic, size - 512 + 24: le(8, size/512-1)}, []int64{0, 512, 4096, size - 512}},
		{"LUKS2", map[int]string{0: "LUKS\xba\xbe\x00\x02",
			16384: "SKUL\xba\xbe", 16384 + 256: be(8, 16384), 4 * mib: "SKUL\xba\xbe", 4*mib + 256: be(8, 4*mib),
			32768: "SKUL\xba\xbe", 32768 + 256: be(8, 16384)}, []int64{0, 16384, 4 * mib}},
		{"btrfs", map[int]string{65536 + 64: "_BHRfS_M", 64*mib + 64: "_BHRfS_M"}, []int64{65536, 64 * mib}},
		{"ZFS", map[int]string{131072: le(8, 0x00bab10c), 131072 + 2048: le(8, 0x00bab10c), 393216: le(8, 0x00bab10c),
			size - 131072: le(8, 0x00bab10c), size - 393216 + 1024: le(8, 0x00bab10c)},
			[]int64{131072, 133120, 393216, size - 393216 + 1024, size - 131072}},
		{"FAT", fat(512, "FAT16   "), []int64{0}},
		{"ext4", map[int]string{1024 + 56: le(2, 0xef53)}, []int64{1024}},
		{"swap", map[int]string{4086: "SWAPSPACE2"}, []int64{3584}},
		{"nothing", nil, nil},
	} {
		b := image{size, c.pieces}.bytes()
		if got := Places(bytes.NewReader(b), size); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestBlkidAgrees(t *testing.T) {
	blkid := testenv.Tool(t, "blkid")
	for _, c := range cases {
		if c.blkid == "" {
			continue
		}
		path := filepath.Join(t.TempDir(), "image")
		if err := os.WriteFile(path, c.image.bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		out, _ := exec.Command(blkid, "-p", "-o", "value", "-s", "TYPE", path).Output()
		if got := strings.TrimSpace(string(out)); got != c.blkid {
			t.Errorf("%s: blkid says %q, want %q", c.name, got, c.blkid)
		}
	}
}

// A size that is not known, and readers that fail, must not invent anything.
func TestUnknownSizeAndErrors(t *testing.T) {
	b := image{mib, map[int]string{4096: gptMagic, 4096 + 24: le(8, 1)}}.bytes()
	if got := show(Identify(bytes.NewReader(b), -1)); got != "gpt@4096/4096" {
		t.Errorf("unknown size: %q", got)
	}
	if got := Identify(brokenReader{}, mib); got != nil {
		t.Errorf("broken reader: %v", got)
	}
}

type brokenReader struct{}

func (brokenReader) ReadAt(p []byte, off int64) (int, error) {
	return copy(p, "LUKS\xba\xbe\x00\x01"), io.ErrUnexpectedEOF
}

// What real programs make.
func TestMkfs(t *testing.T) {
	for _, c := range []struct {
		args  []string
		size  int64
		want  string
		limit int
	}{
		{[]string{"mkfs.ext4", "-q", "-b", "1024"}, 8 * mib, "ext4@1024/1024", 512},
		{[]string{"mkfs.ext4", "-q", "-b", "2048"}, 8 * mib, "ext4@1024/2048", 512},
		{[]string{"mkfs.ext4", "-q", "-b", "4096"}, 8 * mib, "ext4@1024/4096", 4096},
		{[]string{"mkfs.ext3", "-q", "-b", "4096"}, 8 * mib, "ext3@1024/4096", 4096},
		{[]string{"mkfs.ext2", "-q", "-b", "4096"}, 8 * mib, "ext2@1024/4096", 4096},
		{[]string{"mkfs.xfs", "-q", "-s", "size=512"}, 320 * mib, "xfs@0/512", 512},
		{[]string{"mkfs.xfs", "-q", "-s", "size=4096"}, 320 * mib, "xfs@0/4096", 4096},
		{[]string{"mkfs.vfat", "-F", "16"}, 32 * mib, "vfat@0/512", 512},
		{[]string{"mkfs.vfat", "-F", "32", "-S", "4096"}, 512 * mib, "vfat@0/4096", 4096},
		{[]string{"mkswap"}, mib, "swap@0/4096", 4096},
		{[]string{"cryptsetup", "-q", "luksFormat", "--type", "luks2", "--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000", "--key-file", "/etc/hostname"}, 20 * mib, "luks2@0/512", 512},
	} {
		t.Run(strings.Join(c.args[:1], ""), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "image")
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(path, c.size); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(testenv.Tool(t, c.args[0]), slices.Concat(c.args[1:], []string{path})...)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %v: %s", c.args, err, out)
			}
			f, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if got := show(Identify(f, c.size)); got != c.want {
				t.Errorf("%v: %q, want %q", c.args, got, c.want)
			}
			if got := LogicalSector(f, c.size); got != c.limit {
				t.Errorf("%v: logical sector %d, want %d", c.args, got, c.limit)
			}
		})
	}
}

// Images by the developers of cryptsetup; the last one's start belongs to an
// LVM volume whose maker left an old second LUKS2 header in place.
func TestPeerImages(t *testing.T) {
	for _, c := range []struct{ file, want string }{
		{"img_fs_ext4.img.xz", "ext4"},
		{"img_fs_vfat.img.xz", "vfat"},
		{"img_fs_xfs.img.xz", "xfs"},
		{"xfs_512_block_size.img.xz", "xfs"},
		{"luks2_valid_hdr.img.xz", "luks2"},
		{"compatimage.img.xz", "luks1"},
		{"blkid-luks2-pv.img.xz", "lvm2"},
	} {
		b := testenv.Unxz(t, testenv.Data(t, "peer-images/"+c.file))
		var names []string
		for _, f := range Identify(bytes.NewReader(b), int64(len(b))) {
			names = append(names, f.Name)
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("%s: %q, want %q", c.file, got, c.want)
		}
	}
}

func FuzzIdentify(f *testing.F) {
	for _, c := range cases {
		if b := c.image.bytes(); len(b) > 0 {
			f.Add(b[:min(len(b), 8192)])
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, found := range Identify(bytes.NewReader(b), int64(len(b))) {
			if found.Name == "" || found.Off < 0 || found.Off >= int64(len(b)) || found.BlockSize < 0 {
				t.Errorf("%+v in %d bytes", found, len(b))
			}
		}
		if s := LogicalSector(bytes.NewReader(b), int64(len(b))); s != 512 && s != 4096 {
			t.Errorf("logical sector %d", s)
		}
	})
}
