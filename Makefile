# quietcore: the two commands of the README are `make tour` and `make test`.
# Each installs what it lacks with apt, only if missing, and says so.

.PHONY: help tour build check test test-long bench dist clean

help:
	@echo "make tour       build quietcore and look at this host: audit, idle states, jitter, one HTML page"
	@echo "make build      build target/release/quietcore"
	@echo "make check      format, lints, layers, unit tests: for daily use"
	@echo "make test       everything that decides, guests under QEMU included"
	@echo "make test-long  the same, with long fuzzing"
	@echo "make bench      hot paths beside their peers, interleaved"
	@echo "make dist       a static tarball for hosts without a compiler"

COMPILER = cc=gcc /usr/include/stdio.h=libc6-dev clang=clang /usr/include/libelf.h=libelf-dev /usr/include/zlib.h=zlib1g-dev pkg-config=pkg-config rustfmt=rustfmt
LAB = qemu-system-x86_64=qemu-system-x86 qemu-img=qemu-utils debootstrap=debootstrap iasl=acpica-tools busybox=busybox-static dpkg-deb=dpkg xz=xz-utils
# Debian's cargo comes without it; rustup brings it.
LINTERS = cargo-clippy=rust-clippy
TESTS = $(COMPILER) /usr/include/openssl/ssl.h=libssl-dev $(LINTERS) $(LAB) /etc/grub.d/10_linux=grub-common \
	shellcheck=shellcheck strace=strace ansible-playbook=ansible-core \
	java=default-jdk-headless go=golang-go openssl=openssl nats-server=nats-server \
	/usr/lib/python3/dist-packages/websockets=python3-websockets \
	/usr/lib/python3/dist-packages/aiohttp=python3-aiohttp

tour: build
	./target/release/quietcore tour

build:
	@tools/need-rust
	@tools/need $(COMPILER)
	@echo "quietcore: building (a few minutes the first time)" >&2
	cargo build --release --quiet --package quietcore-cli --package quietcore-feed

check:
	@tools/need-rust
	@tools/need $(COMPILER) $(LINTERS)
	cargo xtask check

test:
	@tools/need-rust
	@tools/need $(TESTS)
	cargo xtask test

test-long:
	@tools/need-rust
	@tools/need $(TESTS)
	cargo xtask test --long

bench:
	@tools/need-rust
	@tools/need $(COMPILER)
	cargo bench --package quietcore-measure --package quietcore-spike

dist:
	@tools/need-rust
	@tools/need $(COMPILER)
	cargo xtask dist

clean:
	cargo clean
