package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/xtsdisk/xtsdisk/device/volume"
	"github.com/xtsdisk/xtsdisk/luks"
)

// The values of --type.
const (
	typeLUKS1 = "luks1"
	typeLUKS2 = "luks2"
	typeLUKS  = "luks"
	typePlain = "plain"
)

// volumeFlags are the options that describe a volume: all of a plain one, and
// what a new LUKS volume is to be. Names and units are cryptsetup's.
type volumeFlags struct {
	kind          string
	cipher        string
	keySize       int // bits
	hash          string
	sectorSize    int
	offset        size
	label, uuid   string
	subsystem     string
	metadataSize  size
	keyslotsSize  size
	skip, size    size
	ivLarge       bool
	volumeKeyFile string
	keyslotCipher string
	keyslotBits   int
	header        string // to make, detached; "": in the volume
	use           string // --for
	kdf           kdfFlags

	fs *pflag.FlagSet
}

// what may be given with one type only.
var (
	luksOnly  = []string{"label", "uuid", "subsystem", "luks2-metadata-size", "luks2-keyslots-size", "volume-key-file", "key-slot", "header", "max-kdf-memory", "max-kdf-time", "pbkdf", "pbkdf-memory", "pbkdf-parallel", "pbkdf-force-iterations", "iter-time", "keyslot-cipher", "keyslot-key-size", "target-memory", "target-cpus", "for"}
	luks2Only = []string{"label", "subsystem", "luks2-metadata-size", "luks2-keyslots-size", "pbkdf-memory", "pbkdf-parallel", "keyslot-cipher", "keyslot-key-size", "target-memory", "target-cpus"}
	plainOnly = []string{"skip", "size", "iv-large-sectors"}
	// stored in a LUKS header, so not to be given when opening one
	stored = []string{"cipher", "key-size", "hash", "sector-size", "offset"}
)

// registerNew adds the options of verbs that make volumes.
func (v *volumeFlags) registerNew(cmd *cobra.Command, plain bool) {
	fs := cmd.Flags()
	v.fs, v.offset, v.metadataSize, v.keyslotsSize = fs, sectorsFlag(), bytesFlag(), bytesFlag()
	types := "luks1 or luks2"
	if plain {
		types = "luks1, luks2 or plain"
	}
	inGroup(fs, flagsVolume, func() {
		fs.StringVarP(&v.kind, "type", "M", typeLUKS2, "`TYPE`: "+types)
		fs.StringVarP(&v.cipher, "cipher", "c", "", "`CIPHER`: cipher, mode and IV; for LUKS aes-xts-plain64 unless given")
		fs.IntVarP(&v.keySize, "key-size", "s", 0, "`BITS`: length of the volume key; for LUKS 512 unless given")
		fs.StringVar(&v.hash, "hash", "", "`HASH`: of the keyslot and the key's digest, for LUKS sha256 unless given; for plain of the passphrase (NAME, NAME:LENGTH or plain)")
		fs.Var((*sectorValue)(&v.sectorSize), "sector-size", "encryption sector size: 512, 1024, 2048, 4096, or for LUKS auto, which is chosen by what it is for, and said")
		fs.VarP(&v.offset, "offset", "o", "start of the data in the volume: 512-byte sectors, or a number with suffix")
		fs.StringVar(&v.label, "label", "", "`TEXT`: to find the volume by")
		fs.StringVar(&v.subsystem, "subsystem", "", "`TEXT`: names what uses the volume")
		fs.StringVar(&v.uuid, "uuid", "", "`UUID`: instead of a random one")
		fs.Var(&v.metadataSize, "luks2-metadata-size", "size of one header copy, 16K to 4M")
		fs.Var(&v.keyslotsSize, "luks2-keyslots-size", "size of the keyslots area")
		fs.StringVar(&v.header, "header", "", "`FILE`: make the header there, apart from the data, which then begins at 0")
		fs.StringVar(&v.use, "for", "", "`USE`: vm chooses what suits a guest with 1 GiB of memory: sectors of 512 bytes, a key derivation for one processor and half of that memory")
	})
	inGroup(fs, flagsKeys, func() {
		fs.StringVar(&v.volumeKeyFile, "volume-key-file", "", "`FILE`: holds the volume key to use instead of a random one")
	})
	v.kdf.register(fs)
	inGroup(fs, flagsKDF, func() {
		fs.StringVar(&v.keyslotCipher, "keyslot-cipher", "", "`CIPHER`: of the keyslot; the data's unless given")
		fs.IntVar(&v.keyslotBits, "keyslot-key-size", 0, "`BITS`: length of the keyslot cipher's key")
	})
	kinds := []string{typeLUKS1, typeLUKS2}
	if plain {
		v.registerPlain()
		kinds = append(kinds, typePlain)
	}
	v.complete(cmd, kinds)
}

// registerOpen adds the options of verbs that open volumes.
func (v *volumeFlags) registerOpen(cmd *cobra.Command) {
	fs := cmd.Flags()
	v.fs, v.offset = fs, sectorsFlag()
	inGroup(fs, flagsVolume, func() {
		fs.StringVarP(&v.kind, "type", "M", typeLUKS, "`TYPE`: luks (found by its header), luks1, luks2 or plain")
	})
	inGroup(fs, flagsPlain, func() {
		fs.StringVarP(&v.cipher, "cipher", "c", "", "`CIPHER`: cipher, mode and IV, such as aes-xts-plain64")
		fs.IntVarP(&v.keySize, "key-size", "s", 0, "`BITS`: length of the key")
		fs.StringVar(&v.hash, "hash", "", "`HASH`: makes the key of the passphrase: NAME, NAME:LENGTH or plain")
		fs.IntVar(&v.sectorSize, "sector-size", 0, "`BYTES`: encryption sector size")
		fs.VarP(&v.offset, "offset", "o", "start of the data in the volume: 512-byte sectors, or a number with suffix")
	})
	v.registerPlain()
	v.complete(cmd, []string{typeLUKS, typeLUKS1, typeLUKS2, typePlain})
}

func (v *volumeFlags) registerPlain() {
	v.skip, v.size = sectorsFlag(), sectorsFlag()
	inGroup(v.fs, flagsPlain, func() {
		v.fs.VarP(&v.skip, "skip", "p", "what the IV starts from: 512-byte sectors, or a number with suffix")
		v.fs.VarP(&v.size, "size", "b", "size of the data: 512-byte sectors, or a number with suffix")
		v.fs.BoolVar(&v.ivLarge, "iv-large-sectors", false, "count the IV in sectors of --sector-size, not of 512 bytes")
	})
}

func (v *volumeFlags) complete(cmd *cobra.Command, kinds []string) {
	for name, values := range map[string][]string{
		"type":        kinds,
		"cipher":      {"aes-xts-plain64"},
		"key-size":    {"512", "256"},
		"hash":        {"sha256", "sha512"},
		"sector-size": {"auto", "512", "1024", "2048", "4096"},
		"for":         {useVM},
		"pbkdf":       {"argon2id", "argon2i", "pbkdf2"},
	} {
		if cmd.Flags().Lookup(name) != nil {
			_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
		}
	}
}

func (v *volumeFlags) plain() bool { return v.kind == typePlain }

// version is that of LUKS which a new volume gets.
func (v *volumeFlags) version() int {
	if v.kind == typeLUKS1 {
		return 1
	}
	return 2
}

// openVersion is that of LUKS which a volume must have; 0: any.
func (v *volumeFlags) openVersion() int {
	if v.kind == typeLUKS1 || v.kind == typeLUKS2 {
		return v.version()
	}
	return 0
}

// check finds options that do not belong together; open says that the volume
// exists.
func (v *volumeFlags) check(open bool) error {
	switch {
	case v.kind == typePlain, v.kind == typeLUKS1, v.kind == typeLUKS2, v.kind == typeLUKS:
	default:
		return usagef("the types are luks1, luks2, luks and plain", "--type %s is not known", v.kind)
	}
	if v.plain() {
		if name := v.firstGiven(luksOnly); name != "" {
			return usagef("leave it away", "--%s is for LUKS volumes: a plain one has no header that could hold it", name)
		}
		if v.fs.Changed("sector-size") && v.sectorSize == 0 {
			return usagef("such as --sector-size 512", "--sector-size auto is for LUKS volumes: a plain one stores nothing that could tell it later")
		}
		return nil
	}
	if err := v.checkUse(); err != nil {
		return err
	}
	if v.kind == typeLUKS1 {
		if err := v.checkLUKS1(); err != nil {
			return err
		}
	}
	if name := v.firstGiven(plainOnly); name != "" {
		return usagef("leave it away, or add --type plain", "--%s is for plain volumes", name)
	}
	if name := v.firstGiven(stored); open && name != "" {
		return usagef("leave it away, or add --type plain if the volume has no header", "--%s is for plain volumes: a LUKS volume stores it in its header", name)
	}
	return nil
}

// useVM is the value of --for.
const useVM = "vm"

// checkUse looks at --for, and fills in what it stands for where that is not
// given.
func (v *volumeFlags) checkUse() error {
	if v.keyslotBits < 0 || v.keyslotBits%8 != 0 || v.fs.Changed("keyslot-key-size") && v.keyslotBits == 0 {
		return usagef("such as 512", "--keyslot-key-size %d: a key has a multiple of 8 bits", v.keyslotBits)
	}
	switch v.use {
	case "":
		return nil
	case useVM:
	default:
		return usagef("vm is", "--for %s is not known", v.use)
	}
	if v.sectorSize == 0 {
		v.sectorSize = unitSector
	}
	v.kdf.forGuest()
	return nil
}

// checkLUKS1 refuses what LUKS1 does not have, and takes the one KDF that it has.
func (v *volumeFlags) checkLUKS1() error {
	const otherwise = "leave it away, or use --type luks2"
	if name := v.firstGiven(luks2Only); name != "" {
		return usagef(otherwise, "--%s is for LUKS2 volumes: LUKS1 has nothing like it", name)
	}
	if v.fs.Changed("pbkdf") && v.kdf.kind != luks.KDFPBKDF2 {
		return usagef(otherwise, "--pbkdf %s is for LUKS2 volumes: LUKS1 has only pbkdf2", v.kdf.kind)
	}
	v.kdf.kind = luks.KDFPBKDF2
	if v.sectorSize != 0 && v.sectorSize != unitSector {
		return usagef(otherwise, "--sector-size %d is for LUKS2 volumes: LUKS1 has sectors of %d bytes", v.sectorSize, unitSector)
	}
	return nil
}

func (v *volumeFlags) firstGiven(names []string) string {
	for _, name := range names {
		if v.fs.Changed(name) {
			return name
		}
	}
	return ""
}

// bits returns --key-size in bytes.
func (v *volumeFlags) keyBytes() (int, error) {
	if v.keySize < 0 || v.keySize%8 != 0 || v.fs.Changed("key-size") && v.keySize == 0 {
		return 0, usagef("512 is AES-256 in XTS mode, 256 is AES-128", "--key-size %d: a key has a multiple of 8 bits", v.keySize)
	}
	if v.fs.Changed("key-size") && v.keySize <= 64 {
		return 0, usagef(fmt.Sprintf("did you mean %d?", v.keySize*8), "--key-size %d: it counts bits", v.keySize)
	}
	return v.keySize / 8, nil
}

// plainOptions are the parameters of a plain volume, all but the key. Nothing
// is guessed: what is missing is listed.
func (v *volumeFlags) plainOptions(k *keyFlags) (*volume.PlainOptions, error) {
	need := []string{"cipher", "key-size", "sector-size"}
	if !k.fs.Changed("key-file") {
		need = append(need, "hash")
	}
	var missing []string
	for _, name := range need {
		if !v.fs.Changed(name) {
			missing = append(missing, "--"+name)
		}
	}
	if len(missing) > 0 {
		return nil, usagef("as they were when the volume was made, such as\n--cipher aes-xts-plain64 --key-size 512 --hash sha512 --sector-size 512\n(--hash only for a passphrase; --offset, --skip and --iv-large-sectors where they were used)",
			"a plain volume stores nothing about itself, so these must be given: %s", strings.Join(missing, ", "))
	}
	if v.fs.Changed("size") && v.size.bytes == 0 {
		return nil, usagef("leave it away for all there is", "--size 0 is an empty volume")
	}
	if _, err := v.keyBytes(); err != nil {
		return nil, err
	}
	return &volume.PlainOptions{
		Cipher: v.cipher, SectorSize: v.sectorSize, IVLargeSectors: v.ivLarge,
		Offset: v.offset.bytes, Skip: v.skip.bytes, Size: v.size.bytes,
	}, nil
}

// plainKey makes the key of a plain volume, as cryptsetup does: a key file is
// used as it is, a passphrase is hashed.
func (v *volumeFlags) plainKey(a *app, k *key) ([]byte, error) {
	n, err := v.keyBytes()
	if err != nil {
		return nil, err
	}
	if !k.keyFile {
		k.hashed, err = volume.PlainKey(k.Bytes(), v.hash, n)
		return k.hashed, err
	}
	if v.fs.Changed("hash") {
		a.warn("--hash does nothing here: a key file is the key of a plain volume as it is")
	}
	if k.Len() < n {
		return nil, usagef("is it the right file, and whole?", "%s has %d bytes, --key-size %d needs %d", k.from, k.Len(), v.keySize, n)
	}
	if k.Len() > n {
		a.warn(fmt.Sprintf("%s has %d bytes; the first %d are the key, as in cryptsetup", k.from, k.Len(), n))
	}
	return k.Bytes()[:n], nil
}

// luksOptions are a new LUKS volume's parameters, all but passphrase and KDF.
func (v *volumeFlags) luksOptions() (*luks.FormatOptions, error) {
	n, err := v.keyBytes()
	if err != nil {
		return nil, err
	}
	return &luks.FormatOptions{
		Version: v.version(),
		Cipher:  v.cipher, KeySize: n, Hash: v.hash, SectorSize: v.sectorSize,
		UUID: v.uuid, Label: v.label, Subsystem: v.subsystem,
		KeyslotCipher: v.keyslotCipher, KeyslotKeySize: v.keyslotBits / 8,
		MetadataSize: v.metadataSize.bytes, KeyslotsSize: v.keyslotsSize.bytes, DataOffset: v.offset.bytes,
	}, nil
}
