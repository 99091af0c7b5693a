// SPDX-License-Identifier: Apache-2.0
// node page.js FILE...: runs the script of each page with as much of a browser's document as it needs, and prints the page's
// text: a line for each paragraph, heading, cell, fact or label.  No text may become an element.
'use strict'
const fs = require('fs'), vm = require('vm')

class Element {
	constructor(name, text) {
		Object.assign(this, { name, text, children: [], attributes: {}, style: {}, listeners: {}, value: '' })
	}
	setAttribute(key, value) { this.attributes[key] = String(value) }
	append(...children) {
		for (const child of children)
			this.children.push(child instanceof Element ? child : new Element('', String(child)))
	}
	replaceChildren(...children) { this.children = []; this.append(...children) }
	addEventListener(type, listener) { this.listeners[type] = listener }
	set textContent(text) { this.children = [new Element('', String(text))] }
	get textContent() { return this.name ? this.children.map(child => child.textContent).join('') : this.text }
	find(name) { return [...(this.name === name ? [this] : []), ...this.children.flatMap(child => child.find(name))] }
	print() {
		if (/^(p|h.|td|th|d[td]|text|summary|pre|label|option)$/.test(this.name))
			console.log(this.textContent)
		else
			this.children.forEach(child => child.print())
	}
}

for (const file of process.argv.slice(2)) {
	const page = fs.readFileSync(file, 'utf8')
	const parts = page.match(/id="data">([^]*?)<\/script>\s*<script>([^]*?)<\/script>/)
	const body = new Element('body')
	const found = Object.fromEntries(['h1', 'nav', 'main', 'footer'].map(name => [name, new Element(name)]))
	body.append(...Object.values(found))
	const document = {
		getElementById: () => ({ textContent: parts[1] }),
		querySelector: name => found[name],
		createElement: name => new Element(name),
		createElementNS: (_, name) => new Element(name),
	}
	vm.runInNewContext(parts[2], { document, ResizeObserver: class { observe() {} } })
	body.print()
	const input = body.find('input')[0]
	input.value = 'no such tensor'
	input.listeners.input()
	console.log(body.find('p').map(p => p.textContent).filter(text => / of \d+ tensors/.test(text)).join())
}
