package luks

import (
	"bytes"
	"slices"
	"testing"
)

// A token of a type that nobody knows, written as nobody writes them.
const oddToken = "{\"type\" : \"o\\u0064d\",\t\"n\":1e3,\"keyslots\":[ \"0\" ],\n\"deep\":[{\"a\":[1.50,-0,true,null,\"\\/ü\"]}] , \"keyslots2\":[\"7\"]}"

func TestTokens(t *testing.T) {
	image := editable(t)["LUKS2"]
	id, err := edit(t, image).AddToken(t.Context(), AnyToken, []byte("\n "+oddToken+"\n"), false)
	if err != nil || id != 0 {
		t.Fatal(id, err)
	}
	if id, err = edit(t, image).AddToken(t.Context(), 7, KeyringToken("name", nil), false); err != nil || id != 7 {
		t.Fatal(id, err)
	}
	h := edit(t, image).Header()
	if !bytes.Equal(h.Tokens[0].JSON, []byte(oddToken)) || h.Tokens[0].Type != "odd" || !slices.Equal(h.Tokens[0].Keyslots, []int{0}) {
		t.Errorf("%s", h.Tokens[0].JSON)
	}
	_, err = edit(t, image).AddToken(t.Context(), 7, KeyringToken("other", nil), false)
	wantNamed(t, err, ErrOption, "token 7 is in use")
	if _, err = edit(t, image).AddToken(t.Context(), 7, KeyringToken("other", []int{0}), true); err != nil {
		t.Fatal(err)
	}
	if err := edit(t, image).RemoveToken(t.Context(), 7); err != nil {
		t.Fatal(err)
	}
	wantNamed(t, edit(t, image).RemoveToken(t.Context(), 7), ErrOption, "no token 7")
	for text, word := range map[string]string{
		"":                                       "object",
		"[]":                                     "object",
		`{"type":"x"}`:                           "keyslots",
		`{"keyslots":[]}`:                        "type",
		`{"type":"","keyslots":[]}`:              "type",
		`{"type":"x","keyslots":[0]}`:            "keyslots",
		`{"type":"x","keyslots":["32"]}`:         "32",
		`{"type":"x","keyslots":["9"]}`:          "keyslot 9",
		`{"type":"x","keyslots":[],"type":1}`:    "twice",
		`{"type":"x","keyslots":[]} {}`:          "behind",
		"{\"type\":\"x\x00\",\"keyslots\":[]}":   "",
		`{"type":"luks2-keyring","keyslots":[]}`: "key_description",
	} {
		_, err := edit(t, image).AddToken(t.Context(), AnyToken, []byte(text), false)
		wantNamed(t, err, ErrOption, word)
	}
}

// All changes around it leave an unknown object as it is, and text fits or the
// error says by how much it does not.
func TestUnknownSurvives(t *testing.T) {
	image := editable(t)["LUKS2"]
	e := edit(t, image)
	const extra, member = `{ "x" : 1.0E+2 }`, `"é"`
	err := e.edit(t.Context(), func(_ *Header, root *jsonNode) error {
		root.set("future", []byte(extra))
		root.child("config").set("more", []byte(member))
		root.path("keyslots", "0").set("note", []byte(extra))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.AddToken(t.Context(), AnyToken, []byte(oddToken), false); err != nil {
		t.Fatal(err)
	}
	if err := e.SetFlags(t.Context(), []string{"no-journal"}); err != nil {
		t.Fatal(err)
	}
	if err := e.SetPriority(t.Context(), 0, PriorityPrefer); err != nil {
		t.Fatal(err)
	}
	addKey(t, image, "small", "second")
	v := open(t, image, "second")
	if _, err := edit(t, image).ChangeKey(t.Context(), v, 1, cheapSlot("third")); err != nil {
		t.Fatal(err)
	}
	raw := []byte(edit(t, image).Header().json.raw)
	for _, text := range []string{`"future":` + extra, `"more":` + member, `"note":` + extra, `"0":` + oddToken} {
		if !bytes.Contains(raw, []byte(text)) {
			t.Errorf("%s is not in %s", text, raw)
		}
	}
	// A token that loses one of its keyslots keeps the rest of its bytes.
	if _, err := edit(t, image).AddToken(t.Context(), 1, []byte(`{"a" : 1.0,"type":"t" , "keyslots":["0", "1"]}`), false); err != nil {
		t.Fatal(err)
	}
	orphans, err := edit(t, image).RemoveKey(t.Context(), 0, false)
	if err != nil || len(orphans) != 1 || !bytes.Equal(orphans[0].JSON, []byte(oddToken)) {
		t.Fatal(orphans, err)
	}
	tokens := edit(t, image).Header().Tokens
	if len(tokens) != 1 || string(tokens[0].JSON) != `{"a" : 1.0,"type":"t" , "keyslots":["1"]}` {
		t.Errorf("%s", tokens[0].JSON)
	}
}

// The JSON area takes text up to its last byte but one.
func TestJSONAreaFull(t *testing.T) {
	image := editable(t)["LUKS2"]
	e := edit(t, image)
	token := func(n int) []byte {
		return slices.Concat([]byte(`{"type":"x","keyslots":[],"fill":"`), bytes.Repeat([]byte("f"), n), []byte(`"}`))
	}
	const around = len(`"0":`)
	fits := int(e.Header().Config.JSONSize) - 1 - len(e.Header().json.raw) - around - len(token(0))
	before := bytes.Clone(image)
	_, err := e.AddToken(t.Context(), AnyToken, token(fits+3), false)
	wantNamed(t, err, ErrSize, "3 too many")
	if !bytes.Equal(image, before) {
		t.Error("it was written to all the same")
	}
	if _, err := e.AddToken(t.Context(), AnyToken, token(fits), false); err != nil {
		t.Fatal(err)
	}
	end := binarySize + int(e.Header().Config.JSONSize)
	if image[end-1] != 0 || image[end-2] != '}' {
		t.Error("the area does not end with the object and one NUL")
	}
	open(t, image, "small")
}

func TestRecoveryKey(t *testing.T) {
	seen := map[string]bool{}
	for range 100 {
		k := NewRecoveryKey()
		text := string(k.Bytes())
		if len(text) != 71 || seen[text] || bytes.Count(k.Bytes(), []byte("-")) != 7 {
			t.Fatal(text)
		}
		seen[text] = true
		for _, typed := range []string{text, "  " + text + "\r\n", string(bytes.ToUpper([]byte(text))), string(bytes.ReplaceAll([]byte(text), []byte("-"), nil))} {
			got, err := ParseRecoveryKey([]byte(typed))
			if err != nil || string(got.Bytes()) != text {
				t.Errorf("%q: %v", typed, err)
			}
		}
		_, err := ParseRecoveryKey(k.Bytes()[:70])
		wantNamed(t, err, ErrOption, "63 letters")
		_, err = ParseRecoveryKey([]byte(text + "c"))
		wantNamed(t, err, ErrOption, "65 letters")
		_, err = ParseRecoveryKey([]byte("a" + text))
		wantNamed(t, err, ErrOption, "byte 0")
	}
}
