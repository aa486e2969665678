// How the page is built: into the folder that the crate `query` embeds, under names that hash their content.
//
// WHYSLOW_SERVER names the server that `npm run dev` and `vite preview` ask for data.

import { existsSync, readFileSync, readdirSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { defineConfig, type Plugin } from "vite";

/** Folder of the package that a module belongs to. */
function packageOf(module: string): string | undefined {
  const at = module.lastIndexOf("node_modules/");
  if (at < 0) return undefined;
  let folder = dirname(module);
  while (!existsSync(join(folder, "package.json")) || !("version" in manifest(folder))) {
    folder = dirname(folder);
  }
  return folder;
}

function manifest(folder: string): Record<string, string> {
  return JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as Record<string, string>;
}

/** Writes the licences of what was bundled beside it. */
function licences(): Plugin {
  return {
    name: "licences",
    generateBundle(_options, bundle) {
      const modules = Object.values(bundle).flatMap((file) => (file.type === "chunk" ? Object.keys(file.modules) : []));
      const folders = new Set(modules.map(packageOf).filter((folder) => folder !== undefined));
      const texts = [...folders].map((folder) => {
        const { name, version, license } = manifest(folder);
        const files = readdirSync(folder).filter((file) => /^(licen[cs]e|notice)/i.test(file)).sort();
        const said = files.map((file) => readFileSync(join(folder, file), "utf8").trim());
        return `${name} ${version} (${license})\n\n${said.join("\n\n")}\n`;
      });
      const source = texts.sort().join(`\n${"-".repeat(80)}\n\n`);
      this.emitFile({ type: "asset", fileName: "licences.txt", source });
    },
  };
}

/** What the page is made from: a change to any of it needs a new build. */
const SOURCES = ["index.html", "package-lock.json", "package.json", "public", "src", "tsconfig.json", "vite.config.ts"];

function filesBelow(path: string): string[] {
  if (!statSync(path).isDirectory()) return [path];
  return readdirSync(path).flatMap((name) => filesBelow(join(path, name)));
}

/** FNV-1a of 64 bits: `tests/tidy` computes the same without Node. */
function fingerprint(bytes: Uint8Array): string {
  let hash = 0xcbf29ce484222325n;
  for (const byte of bytes) hash = ((hash ^ BigInt(byte)) * 0x100000001b3n) & 0xffffffffffffffffn;
  return hash.toString(16).padStart(16, "0");
}

/** Says which sources the page was built from. */
function sources(): Plugin {
  return {
    name: "sources",
    generateBundle() {
      const lines = SOURCES.flatMap(filesBelow).sort().map((path) => `${fingerprint(readFileSync(path))} ${path}\n`);
      this.emitFile({ type: "asset", fileName: "sources.txt", source: lines.join("") });
    },
  };
}

const server = process.env["WHYSLOW_SERVER"] ?? "http://127.0.0.1:7070";

export default defineConfig({
  base: "./",
  build: {
    outDir: "../crates/query/page",
    emptyOutDir: true,
    target: "es2022",
    // The first that know `light-dark`.
    cssTarget: ["chrome123", "firefox120", "safari17.5"],
    // A data address would be what the policy of the page forbids.
    assetsInlineLimit: 0,
    // The polyfill is for browsers that know no `modulepreload`.
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    chunkSizeWarningLimit: 1024,
  },
  plugins: [licences(), sources()],
  server: { proxy: { "/v1": server } },
  preview: { proxy: { "/v1": server } },
});
