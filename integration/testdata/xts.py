"""AES-XTS of single sectors by OpenSSL's libcrypto: a third opinion.

Usage: xts.py KEYFILE SECTORSIZE IVNUMBER... < ciphertext > plaintext
Standard input holds one sector for each IV number (plain64).
"""
import ctypes
import ctypes.util
import sys

crypto = ctypes.CDLL(ctypes.util.find_library("crypto") or "libcrypto.so.3")
for name in ("EVP_CIPHER_CTX_new", "EVP_aes_128_xts", "EVP_aes_256_xts"):
    getattr(crypto, name).restype = ctypes.c_void_p
pointer, size = ctypes.c_void_p, ctypes.c_int
crypto.EVP_DecryptInit_ex.argtypes = [pointer, pointer, pointer, ctypes.c_char_p, ctypes.c_char_p]
crypto.EVP_DecryptUpdate.argtypes = [pointer, ctypes.c_char_p, ctypes.POINTER(size), ctypes.c_char_p, size]


def decrypt(key, iv, data):
    kind = {32: crypto.EVP_aes_128_xts, 64: crypto.EVP_aes_256_xts}[len(key)]()
    context = crypto.EVP_CIPHER_CTX_new()
    out, length = ctypes.create_string_buffer(len(data)), size()
    tweak = iv.to_bytes(8, "little") + bytes(8)
    if crypto.EVP_DecryptInit_ex(context, kind, None, key, tweak) != 1:
        sys.exit("EVP_DecryptInit_ex failed")
    if crypto.EVP_DecryptUpdate(context, out, ctypes.byref(length), data, len(data)) != 1 or length.value != len(data):
        sys.exit("EVP_DecryptUpdate failed")
    return out.raw


def main():
    key = open(sys.argv[1], "rb").read()
    sector = int(sys.argv[2])
    for iv in map(int, sys.argv[3:]):
        sys.stdout.buffer.write(decrypt(key, iv, sys.stdin.buffer.read(sector)))


main()
