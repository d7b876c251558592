#!/bin/sh
# Makes ../demo.ext4.gz, the filesystem that `xtsdisk demo` carries, from the
# files in ./files. Needs e2fsprogs and gzip. The same e2fsprogs gives the same
# bytes: identifiers and times are fixed, in the inodes too, which mke2fs -d
# would copy from the files.
set -eu
cd "$(dirname "$0")"
PATH=$PATH:/usr/sbin:/sbin
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

export E2FSPROGS_FAKE_TIME=1767225600 TZ=UTC LC_ALL=C # 2026-01-01
cp -R files "$work/files"
ln -s notes/secret.txt "$work/files/treasure"
find "$work/files" -type d -exec chmod 755 {} + -o -type f -exec chmod 644 {} +
find "$work/files" -exec touch -h -d @$E2FSPROGS_FAKE_TIME {} +

uuid=7d3f5c1e-0de0-4c1a-9a55-d15c0de0f00d
mke2fs -q -t ext4 -b 4096 -I 256 -N 64 -m 0 -L xtsdisk-demo -U $uuid \
	-O '^has_journal,^resize_inode,metadata_csum' \
	-E "hash_seed=$uuid,root_owner=0:0,lazy_itable_init=0,nodiscard" \
	-d "$work/files" "$work/fs" 4M >/dev/null

# Change times and owners as the populating left them: debugfs sets them.
(cd "$work/files" && find . -mindepth 1 | sort | sed 's|^\.||') | while read -r name; do
	for field in atime ctime mtime crtime; do
		echo "sif $name $field @$E2FSPROGS_FAKE_TIME"
		echo "sif $name ${field}_extra 0"
	done
	echo "sif $name uid 0"
	echo "sif $name gid 0"
done >"$work/commands"
debugfs -w -f "$work/commands" "$work/fs" >"$work/log" 2>&1
e2fsck -fn "$work/fs" >/dev/null 2>&1
gzip -9nc "$work/fs" >../demo.ext4.gz
ls -l ../demo.ext4.gz
