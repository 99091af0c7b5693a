# SPDX-License-Identifier: Apache-2.0
# What is installed, and packed to be installed or run elsewhere.
PREFIX   ?= /usr/local
LIB_DIR  ?= $(PREFIX)/lib
MAN_DIR  ?= $(PREFIX)/share/man
BASH_DIR ?= $(PREFIX)/share/bash-completion/completions
ZSH_DIR  ?= $(PREFIX)/share/zsh/site-functions
# The site directory of python3 below PREFIX, or else Debian's for packages.
PYTHON_DIR ?= $(or $(shell python3 -c 'import sys; print(next(p for p in sys.path \
	if p.startswith("$(PREFIX)/lib/python") and p.endswith("-packages")))' 2>/dev/null),$(PREFIX)/lib/python3/dist-packages)
# fish does not look below /usr/local, unless XDG_DATA_DIRS names it.
FISH_DIR ?= $(if $(filter /usr/local,$(PREFIX)),/etc/fish/completions,$(PREFIX)/share/fish/vendor_completions.d)

## make install      to $(PREFIX) below $(DESTDIR); make uninstall takes it away
.PHONY: install uninstall
install: all
	install -D -m 755 $(BUILD)/fp8conv $(DESTDIR)$(PREFIX)/bin/fp8conv
	install -D -m 755 $(BUILD)/$(SO) $(DESTDIR)$(LIB_DIR)/$(SO)
	ln -sf $(SO) $(DESTDIR)$(LIB_DIR)/$(SO:.1=)
	install -D -m 644 include/fp8conv.h $(DESTDIR)$(PREFIX)/include/fp8conv.h
	mkdir -p $(DESTDIR)$(LIB_DIR)/pkgconfig
	sed 's,@PREFIX@,$(PREFIX),; s,@LIB_DIR@,$(LIB_DIR),; s,@VERSION@,$(VERSION),' \
		packaging/fp8conv.pc.in > $(DESTDIR)$(LIB_DIR)/pkgconfig/fp8conv.pc
	for file in python/fp8conv/*.py python/fp8conv/py.typed; do \
		install -D -m 644 $$file $(DESTDIR)$(PYTHON_DIR)/fp8conv/$${file##*/}; done
	set -e; for page in man/*.[1357]; do \
		install -D -m 644 $$page $(DESTDIR)$(MAN_DIR)/man$${page##*.}/$${page##*/}; done
	mkdir -p $(DESTDIR)$(BASH_DIR) $(DESTDIR)$(ZSH_DIR) $(DESTDIR)$(FISH_DIR)
	$(BUILD)/fp8conv completion bash > $(DESTDIR)$(BASH_DIR)/fp8conv
	$(BUILD)/fp8conv completion zsh > $(DESTDIR)$(ZSH_DIR)/_fp8conv
	$(BUILD)/fp8conv completion fish > $(DESTDIR)$(FISH_DIR)/fp8conv.fish

uninstall:
	rm -f $(DESTDIR)$(PREFIX)/bin/fp8conv $(DESTDIR)$(BASH_DIR)/fp8conv \
		$(DESTDIR)$(ZSH_DIR)/_fp8conv $(DESTDIR)$(FISH_DIR)/fp8conv.fish \
		$(DESTDIR)$(LIB_DIR)/$(SO) $(DESTDIR)$(LIB_DIR)/$(SO:.1=) \
		$(DESTDIR)$(LIB_DIR)/pkgconfig/fp8conv.pc $(DESTDIR)$(PREFIX)/include/fp8conv.h
	rm -rf $(DESTDIR)$(PYTHON_DIR)/fp8conv
	for page in man/*.[1357]; do rm -f $(DESTDIR)$(MAN_DIR)/man$${page##*.}/$${page##*/}; done

## make deb          Debian packages for this distribution (needs dpkg-dev)
DEB_LIB_DIR = /usr/lib/$(shell $(CC) -print-multiarch)
DEB_PYTHON_DIR = /usr/lib/python3/dist-packages
.PHONY: deb
deb: all
	@sh packaging/deb.sh tools
	@rm -rf $(BUILD)/deb
	$(Q)$(MAKE) --no-print-directory install DESTDIR=$(BUILD)/deb/all PREFIX=/usr \
		LIB_DIR=$(DEB_LIB_DIR) PYTHON_DIR=$(DEB_PYTHON_DIR) \
		ZSH_DIR=/usr/share/zsh/vendor-completions $(if $(V),,>/dev/null)
	@BUILD=$(BUILD) VERSION=$(VERSION) CC="$(CC)" WITH_CUDA=$(WITH_CUDA) \
		LIB_DIR=$(DEB_LIB_DIR) PYTHON_DIR=$(DEB_PYTHON_DIR) sh packaging/deb.sh

## make wheel        a wheel of Python with all that it needs (as root, by debootstrap; ONEDNN=0: quickly, without oneDNN; ARCH=aarch64: for that, without GPU code)
## make wheel-check  it in chroots with Python alone: the bytes of the program that is built here
ARCH ?= x86_64
WHEEL_CHECK ?= bullseye bookworm trixie
.PHONY: wheel wheel-check
wheel:
	@mkdir -p $(BUILD); rm -f $(BUILD)/*_$(ARCH).whl
	@BUILD=$(BUILD) VERSION=$(VERSION) CUDA_HOME=$(if $(filter x86_64,$(ARCH)),$(if $(WITH_CUDA),$(CUDA_HOME))) \
		ONEDNN=$(ONEDNN) ARCH=$(ARCH) sh tests/distro.sh bullseye wheel
	@ls -l $(BUILD)/*_$(ARCH).whl

wheel-check: all
	@set -e; for release in $(WHEEL_CHECK); do BUILD=$(BUILD) ONEDNN=$(ONEDNN) ARCH=$(ARCH) sh tests/distro.sh $$release wheel-check; done

## make dist         the sources in one file, for make and for pip: the same bytes from a clone and from an archive
.PHONY: dist
dist:
	@mkdir -p $(BUILD)
	@BUILD=$(BUILD) python3 packaging/pack.py sources $(VERSION) $(BUILD)

## make release      the sources, WHEELS and the packages with SHA256SUMS and their parts (SPDX) in build/release; SIGN=KEY signs
WHEELS ?= x86_64 aarch64
.PHONY: release
release: dist deb
	@set -e; rm -f $(BUILD)/*.whl; for arch in $(WHEELS); do $(MAKE) --no-print-directory wheel ARCH=$$arch; done
	@SIGN=$(SIGN) sh packaging/release.sh $(VERSION) $(BUILD)/release $(BUILD)/fp8conv-$(VERSION).tar.gz \
		$(BUILD)/*.whl $(BUILD)/*_$(VERSION)-1~*.deb

## make gpu-bundle   one archive to run the tests and benchmarks of `make gpu` where nothing is installed
.PHONY: gpu-bundle
gpu-bundle: deps
	@$(MAKE) --no-print-directory gpu-targets CUDA=1 BUILD=$(BUILD)/gpu
	@BUILD=$(BUILD)/gpu PARITY="$(PARITY)" CC="$(CC)" OUTPUT=$(BUILD)/fp8conv-gpu.tar \
		sh packaging/gpu_bundle.sh

## make site         README.md, what it links, and the manual as HTML in $(BUILD)/site
.PHONY: site
site:
	@$(MAKE) --no-print-directory deps EXTRA=cmark-gfm
	python3 packaging/site.py $(BUILD)/site
