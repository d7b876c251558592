package luks

import (
	"archive/tar"
	"bytes"
	"io"
	"testing"

	"github.com/xtsdisk/xtsdisk/internal/testenv"
)

// peerImages unpacks an image, or an archive of images, of cryptsetup's own
// test suite.
func peerImages(t *testing.T, name string) map[string]memory {
	t.Helper()
	b := testenv.Unxz(t, testenv.Data(t, "peer-images/"+name))
	if !bytes.HasSuffix([]byte(name), []byte(".tar.xz")) {
		return map[string]memory{name: b}
	}
	out := map[string]memory{}
	for r := tar.NewReader(bytes.NewReader(b)); ; {
		f, err := r.Next()
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if out[f.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPeersMetadataSizes(t *testing.T) {
	images := peerImages(t, "luks2_mda_images.tar.xz")
	if len(images) != len(headerSizes) {
		t.Errorf("%d images", len(images))
	}
	for name, image := range images {
		t.Run(name, func(t *testing.T) {
			v := open(t, image, "Qx3qn46vq0v")
			if _, err := v.Segments(); err != nil {
				t.Error(err)
			}
			clear(image[:4096])
			h, err := ReadHeader(image, int64(len(image)))
			if err != nil || h.Copy != Secondary || h.UUID != v.Header.UUID {
				t.Errorf("without the primary: %v", err)
			}
		})
	}
}

func TestPeersRequirements(t *testing.T) {
	images := peerImages(t, "luks2_header_requirements.tar.xz")
	free := images["luks2_header_requirements_free"]
	if _, err := open(t, free, "blablabl").Segments(); err != nil {
		t.Error(err)
	}
	image := images["luks2_header_requirements"]
	h, err := ReadHeader(image, int64(len(image)))
	if err != nil {
		t.Fatal(err)
	}
	if s := h.Summary(); !bytes.Contains([]byte(s), []byte("req0 req1")) {
		t.Errorf("the summary does not show the requirements:\n%s", s)
	}
	_, err = h.Unlock(t.Context(), image, []byte("blablabl"), UnlockOptions{Slot: AnySlot})
	wantNamed(t, err, ErrUnsupported, `"req0"`)
	_, err = h.UnlockWithKey(t.Context(), make([]byte, 32), Policy{})
	wantNamed(t, err, ErrUnsupported, `"req0"`)
	_, err = h.DataSegments()
	wantNamed(t, err, ErrUnsupported, `"req0"`)
}

func TestPeersUnassignedKeyslot(t *testing.T) {
	const name = "luks2_keyslot_unassigned.img.xz"
	image := peerImages(t, name)[name]
	v := open(t, image, "compatkey")
	if _, err := v.Segments(); err != nil || v.Slot != 0 {
		t.Errorf("slot %d: %v", v.Slot, err)
	}
	_, err := v.Header.Unlock(t.Context(), image, []byte("93R4P4pIqAH8"), UnlockOptions{Slot: AnySlot})
	wantNamed(t, err, ErrWrongPassphrase, "keyslot 0")
	u, err := v.Header.Unlock(t.Context(), image, []byte("93R4P4pIqAH8"), UnlockOptions{Slot: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	_, err = u.Segments()
	wantNamed(t, err, ErrPolicy, "keyslot 1")
	_, err = v.Header.UnlockWithKey(t.Context(), u.Key(), Policy{})
	wantNamed(t, err, ErrWrongPassphrase, "not the volume key")
}

// Other images: what can be read is, what cannot is named.
func TestPeersOthers(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		word string
	}{
		"blkid-luks2-pv.img.xz":  {ErrNotLUKS, "lvm2"},
		"img_fs_ext4.img.xz":     {ErrNotLUKS, "no LUKS magic"},
		"img_fs_xfs.img.xz":      {ErrNotLUKS, "no LUKS magic"},
		"luks2_valid_hdr.img.xz": {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			image := peerImages(t, name)[name]
			h, err := ReadHeader(image, int64(len(image)))
			if c.err != nil {
				wantNamed(t, err, c.err, c.word)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			_, err = h.Unlock(t.Context(), image, []byte("x"), UnlockOptions{Slot: AnySlot})
			wantNamed(t, err, ErrUnsupported, `KDF "argon2"`)
		})
	}
}

func TestPeersInvalidCipher(t *testing.T) {
	const name = "luks2_invalid_cipher.img.xz"
	image := peerImages(t, name)[name]
	h, err := ReadHeader(image, int64(len(image)))
	if err != nil {
		t.Fatal(err)
	}
	if list, err := h.DataSegments(); err != nil || list[0].Cipher != "capi:xts(ecb(aes-generic))-plain64" {
		t.Errorf("%+v, %v", list, err)
	}
}

func TestPeersCompatImage(t *testing.T) {
	const name = "compatimage2.img.xz"
	image := peerImages(t, name)[name]
	h, err := ReadHeader(image, int64(len(image)))
	if err != nil {
		t.Fatal(err)
	}
	v, err := h.Unlock(t.Context(), image, []byte("compatkey"), UnlockOptions{Slot: AnySlot})
	if err != nil {
		t.Fatal(err)
	}
	v.Close()
}
