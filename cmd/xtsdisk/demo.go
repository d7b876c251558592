package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/xtsdisk/xtsdisk/device"
	"github.com/xtsdisk/xtsdisk/device/volume"
	"github.com/xtsdisk/xtsdisk/luks"
	"github.com/xtsdisk/xtsdisk/xts"
)

type demoVerb struct {
	a     *app
	image string
	size  size
}

func newDemo(a *app) *cobra.Command {
	v := &demoVerb{a: a, size: bytesFlag()}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "show what this program does, and how fast",
		Long: `Makes a disk image with a small ext4 filesystem in it, encrypts it into a LUKS2
volume, shows the header, decrypts it, compares, and prints the throughput
beside that of a plain copy of the same file. It works in a temporary folder
(TMPDIR), shrinks the image where space or memory are short, asks for nothing
and leaves nothing behind.

With --image it only writes its image to a file, to try other verbs on.`,
		Example: `  xtsdisk demo
  xtsdisk demo --image demo.img --image-size 64M`,
		Args: exactArgs(a),
		RunE: func(cmd *cobra.Command, _ []string) error { return v.run(cmd.Context()) },
	}
	cmd.Flags().StringVar(&v.image, "image", "", "`FILE`: only write the image, to this new file")
	cmd.Flags().Var(&v.size, "image-size", "size of the image: bytes, or a number with suffix; 256M unless given")
	registerReport(a, cmd)
	return cmd
}

func (v *demoVerb) run(ctx context.Context) (err error) {
	want := int64(demoSize)
	if v.size.set {
		want = v.size.bytes
	}
	if want < demoMinimum || want%demoChunk != 0 {
		return usagef("such as --image-size 64M", "--image-size %s: it must be a whole number of MiB, 8 at least", formatExact(want))
	}
	if v.image != "" {
		return v.writeImage(ctx, want)
	}
	dir, err := os.MkdirTemp("", "xtsdisk-demo-")
	if err != nil {
		return withHint(err, "name a folder that can be written:  TMPDIR=FOLDER %s demo", v.a.self)
	}
	undo := atKill(func() { _ = os.RemoveAll(dir) })
	defer undo()
	plan, err := planHere(want, os.TempDir())
	if err != nil {
		return err
	}
	d := &demo{a: v.a, w: v.a.io.out, dir: dir, plan: plan}
	if v.a.json {
		d.w = io.Discard
	}
	if err := d.run(ctx); err != nil {
		return err
	}
	if v.a.json {
		return printJSON(v.a.io.out, d.report())
	}
	return d.results(v.a.io.out)
}

// writeImage makes the demo's image as a file that stays.
func (v *demoVerb) writeImage(ctx context.Context, want int64) (err error) {
	if v.image == stdinName {
		return usagef("", "--image needs the name of a file")
	}
	plan, err := planHere(want, filepath.Dir(v.image))
	if codeOf(err, nil) == exitIO {
		return withHint(err, "name a file where there is more room")
	}
	if err != nil {
		return err
	}
	dir, err := device.OSDir(filepath.Dir(v.image), device.FileOptions{})
	if err != nil {
		return explainTarget(v.a, v.image, err)
	}
	defer closeQuietly(dir)
	out, err := device.NewOutput(dir, filepath.Base(v.image), device.OutputOptions{CreateOptions: device.CreateOptions{Size: plan.size}})
	if errors.Is(err, fs.ErrExist) {
		return refusef("name another file, or remove that one", "%s exists", v.image)
	}
	if err != nil {
		return explainTarget(v.a, v.image, err)
	}
	defer func() { _ = out.Abort() }()
	if err := writeDemoImage(ctx, io.NewOffsetWriter(out.Device(), 0), plan.size); err != nil {
		return err
	}
	if err := out.Commit(); err != nil {
		return err
	}
	shrunk := ""
	if plan.size < want {
		shrunk = fmt.Sprintf("smaller than %s, since %s", formatSize(want), plan.why)
	}
	v.a.note("%s", sentence(fmt.Sprintf("%s: an image of %s with an ext4 filesystem of 4 MiB, the rest noise", v.image, formatSize(plan.size)), shrunk))
	return nil
}

// demo is one run.
type demo struct {
	a     *app
	w     io.Writer
	dir   string
	plan  demoPlan
	start time.Time

	passphrase     []byte
	header         string        // of the volume, as text
	made, opened   time.Duration // key derivation when encrypting, decrypting
	sector         int           // bytes
	rounds         int           // of which the best times count
	copy, enc, dec time.Duration // best times
}

func (d *demo) path(name string) string { return filepath.Join(d.dir, name) }

// step prints one line of what was done.
func (d *demo) step(what, name, format string, args ...any) {
	fmt.Fprintf(d.w, "  %-10s %-10s %s\n", what, name, fmt.Sprintf(format, args...))
}

func (d *demo) run(ctx context.Context) error {
	fmt.Fprintf(d.w, "A disk image, encrypted and decrypted, in %s (removed at the end).\n", d.dir)
	if d.plan.why != "" {
		fmt.Fprintf(d.w, "The image is %s instead of %s: %s.\n", formatSize(d.plan.size), formatSize(d.plan.want), d.plan.why)
	}
	fmt.Fprintln(d.w)
	d.start = time.Now()
	d.passphrase = []byte(rand.Text())
	if err := d.makeImage(ctx); err != nil {
		return err
	}
	kdf, err := luks.ChooseKDF(ctx, luks.KDFTarget{IterTime: demoIterTime, MaxMemoryKiB: d.plan.kdfKiB})
	if err != nil {
		return err
	}
	if err := d.round(ctx, kdf); err != nil {
		return err
	}
	fmt.Fprintf(d.w, "\nThe header of disk.luks (cryptsetup luksDump reads it too):\n\n%s", d.header)
	// Other programs and the disk disturb single measurements: repeat them
	// while there is time, without the slow key derivation.
	d.w = io.Discard
	quick := luks.KDF{Type: luks.KDFPBKDF2, Hash: "sha256", Iterations: 1000}
	for d.rounds < demoRounds && time.Since(d.start) < demoPatience {
		if err := d.round(ctx, quick); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) makeImage(ctx context.Context) error {
	image, err := os.OpenFile(d.path("disk.img"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = writeDemoImage(ctx, image, d.plan.size)
	if err == nil {
		err = image.Sync() // what is measured is not to wait for this
	}
	if err = firstError(err, image.Close()); err != nil {
		return err
	}
	d.step("made", "disk.img", "%s: an ext4 filesystem of 4 MiB, the rest noise", formatSize(d.plan.size))
	return nil
}

// round copies, encrypts and decrypts the image once, and checks the results.
func (d *demo) round(ctx context.Context, kdf luks.KDF) error {
	start := time.Now()
	if err := plainCopy(ctx, d.path("disk.img"), d.path("copy.img")); err != nil {
		return err
	}
	d.best(&d.copy, time.Since(start))
	d.step("copied", "copy.img", "plainly, to compare the speed with")
	if err := os.Remove(d.path("copy.img")); err != nil { // the room is needed
		return err
	}
	if err := d.encrypt(ctx, kdf); err != nil {
		return err
	}
	if err := d.decrypt(ctx); err != nil {
		return err
	}
	d.rounds++
	return firstError(os.Remove(d.path("disk.luks")), os.Remove(d.path("back.img")))
}

func (d *demo) best(best *time.Duration, t time.Duration) {
	if d.rounds == 0 || t < *best {
		*best = t
	}
}

func (d *demo) encrypt(ctx context.Context, kdf luks.KDF) error {
	r, err := volume.Encrypt(ctx, volume.EncryptOptions{
		Src: d.path("disk.img"), Dst: d.path("disk.luks"), Warn: d.a.warn,
		Luks: &luks.FormatOptions{Label: "xtsdisk-demo", KDF: kdf, Passphrase: d.passphrase},
	})
	if err != nil {
		return err
	}
	d.best(&d.enc, r.DataTime)
	d.step("encrypted", "disk.luks", "%s: a LUKS2 volume, sectors of %d bytes", formatSize(r.DataOffset+r.Bytes), r.SectorSize)
	if d.rounds > 0 {
		return nil
	}
	d.made, d.sector = r.KDFTime, r.SectorSize
	if d.header, err = headerText(d.path("disk.luks")); err != nil {
		return err
	}
	return d.search(ctx)
}

// search shows that the volume hides what the image shows.
func (d *demo) search(ctx context.Context) error {
	plain, err := findText(ctx, d.path("disk.img"), demoSecret)
	if err != nil {
		return err
	}
	if plain < 0 {
		return fmt.Errorf("the text %q is not in the image", demoSecret)
	}
	found, err := findText(ctx, d.path("disk.luks"), demoSecret)
	if err != nil {
		return err
	}
	if found >= 0 {
		return &failure{exitDamaged, fmt.Errorf("the encrypted volume shows the text %q at byte %d", demoSecret, found), bugHint}
	}
	d.step("searched", "", "%q: byte %d of disk.img, nowhere in disk.luks", demoSecret, plain)
	return nil
}

func (d *demo) decrypt(ctx context.Context) error {
	r, err := volume.Decrypt(ctx, volume.DecryptOptions{
		Src: d.path("disk.luks"), Dst: d.path("back.img"), Warn: d.a.warn,
		Open: volume.OpenOptions{Passphrase: d.passphrase, Slot: luks.AnySlot},
	})
	if err != nil {
		return err
	}
	d.best(&d.dec, r.DataTime)
	d.step("decrypted", "back.img", "%s", formatSize(r.Bytes))
	if err := compareFiles(ctx, d.path("disk.img"), d.path("back.img")); err != nil {
		return err
	}
	if d.rounds == 0 {
		d.opened = r.KDFTime
	}
	d.step("compared", "", "disk.img and back.img are equal, all %d bytes", d.plan.size)
	return nil
}

// level is the AES implementation in use and why.
func level() (string, string) {
	name, why, err := xts.DefaultLevel()
	if err != nil {
		return "unknown", err.Error()
	}
	return name, why
}
