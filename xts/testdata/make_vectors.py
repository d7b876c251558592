#!/usr/bin/env python3
"""Writes ieee1619.json and openssl.json beside itself, by OpenSSL's libcrypto.

Nothing here is computed by this project. AES-128 and AES-256 are libcrypto's
own XTS; AES-192, of which it has none, is IEEE 1619-2018, section 5.3, written
out below over its AES-192-ECB. Large ciphertexts are recorded as SHA-256. The
data, keys and tweaks of openssl.json come from SHAKE128 of the case's name, so
that the file stays small.

Vector 1 of IEEE 1619 has equal key halves, which libcrypto encrypts with no
more: its ciphertext is the standard's, and libcrypto decrypts it. The other
values of ieee1619.json were compared with those published with the standard.
"""
import ctypes
import ctypes.util
import hashlib
import json
import os

lib = ctypes.CDLL(ctypes.util.find_library("crypto"))
for name in ("EVP_CIPHER_CTX_new", "EVP_aes_128_xts", "EVP_aes_256_xts", "EVP_aes_192_ecb"):
    getattr(lib, name).restype = ctypes.c_void_p
lib.OpenSSL_version.restype = ctypes.c_char_p
VERSION = lib.OpenSSL_version(0).decode()


def evp(cipher, key, iv, data, encrypt):
    ctx = ctypes.c_void_p(lib.EVP_CIPHER_CTX_new())
    out, n = ctypes.create_string_buffer(len(data) + 32), ctypes.c_int()
    assert lib.EVP_CipherInit_ex(ctx, ctypes.c_void_p(cipher), None, key, iv, int(encrypt)) == 1
    lib.EVP_CIPHER_CTX_set_padding(ctx, 0)
    assert lib.EVP_CipherUpdate(ctx, out, ctypes.byref(n), data, len(data)) == 1
    assert n.value == len(data)
    lib.EVP_CIPHER_CTX_free(ctx)
    return out.raw[:len(data)]


def xts192(key, iv, data):
    def ecb(k, block):
        return evp(lib.EVP_aes_192_ecb(), k, None, block, True)

    def xor(a, b):
        return bytes(x ^ y for x, y in zip(a, b))

    t = int.from_bytes(ecb(key[24:], iv), "little")
    out = []
    for i in range(0, len(data), 16):
        tweak, block = t.to_bytes(16, "little"), data[i:i + 16]
        if len(block) < 16:
            head, out[-1] = out[-1][:len(block)], block + out[-1][len(block):]
            out[-1] = xor(ecb(key[:24], xor(out[-1], tweak)), tweak)
            out.append(head)
        else:
            out.append(xor(ecb(key[:24], xor(block, tweak)), tweak))
        t <<= 1
        if t >> 128:
            t ^= 1 << 128 | 0x87
    return b"".join(out)


def encrypt(key, iv, data):
    if len(key) == 48:
        return xts192(key, iv, data)
    return evp(lib.EVP_aes_128_xts() if len(key) == 32 else lib.EVP_aes_256_xts(), key, iv, data, True)


def ieee1619():
    e, pi = "27182818284590452353602874713526", "31415926535897932384626433832795"
    e2, pi2 = "62497757247093699959574966967627", "02884197169399375105820974944592"
    count = bytes(range(256)) * 2
    vectors = []

    def add(key, number, data, ct=None):
        key, iv = bytes.fromhex(key), number.to_bytes(16, "little")
        if ct is None:
            ct = encrypt(key, iv, data)
        else:
            assert evp(lib.EVP_aes_128_xts(), key, iv, ct, False) == data
        vectors.append({"vector": len(vectors) + 1, "key": key.hex(), "tweak": iv.hex(),
                        "plaintext": data.hex(), "ciphertext": ct.hex()})
        return ct

    add("00" * 32, 0, bytes(32),
        bytes.fromhex("917cf69ebd68b2ec9b9fe9a3eadda692cd43d2f59598ed858c02c2652fbf922e"))
    add("11" * 16 + "22" * 16, 0x3333333333, b"\x44" * 32)
    add("fffefdfcfbfaf9f8f7f6f5f4f3f2f1f0" + "22" * 16, 0x3333333333, b"\x44" * 32)
    data = count
    for number in range(256):  # each encrypts what the one before gave; the standard prints six
        if number in (0, 1, 2, 0xfd, 0xfe, 0xff):
            data = add(e + pi, number, data)
        else:
            data = encrypt(bytes.fromhex(e + pi), number.to_bytes(16, "little"), data)
    for number in (0xff, 0xffff, 0xffffff, 0xffffffff, 0xffffffffff):
        add(e + e2 + pi + pi2, number, count)
    for n in (17, 18, 19, 20):
        add("fffefdfcfbfaf9f8f7f6f5f4f3f2f1f0bfbebdbcbbbab9b8b7b6b5b4b3b2b1b0", 0x123456789a, count[:n])
    add("e0e1e2e3e4e5e6e7e8e9eaebecedeeefc0c1c2c3c4c5c6c7c8c9cacbcccdcecf", 0xa987654321, count)
    return {"source": "IEEE 1619-2018, Annex B", "vectors": vectors}


def stream(name, n):
    return hashlib.shake_128(name.encode()).digest(n)


LENGTHS = (16, 17, 20, 31, 32, 33, 47, 48, 63, 64, 65, 79, 80, 100, 127, 128, 129, 143, 144, 191, 255, 256, 257,
           300, 511, 512, 513, 520, 1023, 1024, 1040, 1420, 4096, 4111, 16384, 32767, 65536 + 5, 200000)


def units():
    for bits in (128, 192, 256):
        for n in LENGTHS:
            name = "unit aes-%d %d" % (bits, n)
            key, tweak = stream(name + " key", bits // 4), stream(name + " tweak", 16)
            ct = encrypt(key, tweak, stream(name + " data", n))
            yield {"name": name, "bits": bits, "length": n, "sha256": hashlib.sha256(ct).hexdigest()}


def runs():
    for bits in (128, 192, 256):
        for kind, size, sectors, first, step, offset in (
            ("plain64", 512, 17, 0, 1, 0),
            ("plain64", 512, 300, 1 << 40, 1, 99),
            ("plain64", 4096, 9, 8, 8, 0),
            ("plain64", 512, 17, 2**32 - 8, 1, 0),
            ("plain64", 512, 17, 2**64 - 5, 1, 0),
            ("plain64", 16, 40, 2**64 - 30, 3, 9),
            ("plain", 512, 17, 2**32 - 8, 1, 0),
            ("plain", 4096, 6, 2**32 - 20, 8, 0),
            ("plain", 512, 33, 2**33 + 7, 2**31 + 1, 2**32 - 3),
            ("plain64be", 512, 17, 2**32 - 8, 1, 0),
            ("plain64be", 512, 150, 2**64 - 100, 1, 0),
            ("plain64be", 1520, 5, 255, 1, 2),
        ):
            if bits == 192:
                sectors = min(sectors, 17)
            name = "run aes-%d %s %d*%d %d+%d step %d" % (bits, kind, sectors, size, first, offset, step)
            key = stream(name + " key", bits // 4)
            data = stream(name + " data", size * sectors)
            ct = b""
            for i in range(sectors):
                number = first + offset + i * step
                if kind == "plain":
                    iv = (number % 2**32).to_bytes(16, "little")
                elif kind == "plain64":
                    iv = (number % 2**64).to_bytes(16, "little")
                else:
                    iv = (number % 2**64).to_bytes(16, "big")
                ct += encrypt(key, iv, data[i * size:(i + 1) * size])
            # Numbers as strings: JSON readers may round what a float64 cannot hold.
            yield {"name": name, "bits": bits, "kind": kind, "sectorSize": size, "sectors": sectors,
                   "first": str(first), "step": str(step), "offset": str(offset),
                   "sha256": hashlib.sha256(ct).hexdigest()}


def write(name, value):
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), name), "w") as f:
        f.write(json.dumps(value, indent=0).replace(",\n\"", ", \"").replace("{\n", "{").replace("\n}", "}") + "\n")


write("ieee1619.json", ieee1619())
write("openssl.json", {"source": VERSION + " by make_vectors.py", "units": list(units()), "runs": list(runs())})
