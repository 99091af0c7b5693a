# SPDX-License-Identifier: Apache-2.0
# What is installed, and packed to be installed or run elsewhere.
PREFIX  ?= /usr/local
MAN_DIR  = $(DESTDIR)$(PREFIX)/share/man
COMPLETIONS = $(DESTDIR)$(PREFIX)/share/bash-completion/completions/fp8conv \
	$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_fp8conv \
	$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/fp8conv.fish

## make install      to $(PREFIX) below $(DESTDIR); make uninstall takes it away
.PHONY: install uninstall
install: all
	install -D -m 755 $(BUILD)/fp8conv $(DESTDIR)$(PREFIX)/bin/fp8conv
	set -e; for page in man/*.[157]; do \
		install -D -m 644 $$page $(MAN_DIR)/man$${page##*.}/$${page##*/}; done
	set -e; set -- bash zsh fish; for file in $(COMPLETIONS); do mkdir -p $$(dirname $$file); \
		$(BUILD)/fp8conv completion $$1 > $$file; shift; done

uninstall:
	rm -f $(DESTDIR)$(PREFIX)/bin/fp8conv $(COMPLETIONS)
	for page in man/*.[157]; do rm -f $(MAN_DIR)/man$${page##*.}/$${page##*/}; done

## make deb          a Debian package, build/fp8conv_VERSION_ARCHITECTURE.deb
.PHONY: deb
deb: all
	rm -rf $(BUILD)/deb
	@$(MAKE) --no-print-directory install DESTDIR=$(BUILD)/deb PREFIX=/usr
	strip $(BUILD)/deb/usr/bin/fp8conv
	install -D -m 644 LICENSE $(BUILD)/deb/usr/share/doc/fp8conv/copyright
	mkdir -p $(BUILD)/deb/DEBIAN
	printf '%s\n' 'Package: fp8conv' 'Version: $(VERSION)' "Architecture: $$(dpkg --print-architecture)" \
		'Maintainer: the fp8conv authors <fp8conv@localhost>' 'Section: science' 'Priority: optional' \
		'Depends: libc6, libjansson4, libpcre2-8-0, libunistring2, libssl3, libisal2, zlib1g' \
		'Description: turns LLM checkpoints into FP8 ones that inference engines load' > $(BUILD)/deb/DEBIAN/control
	dpkg-deb --root-owner-group --build $(BUILD)/deb $(BUILD)
