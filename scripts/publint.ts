/**
 * Checks the packages as published: publint's rules, their metadata (`metadata.ts`), that each tarball holds only dist and src, and that the source maps
 * of the chunks lead to published sources. Needs built packages; run it by `npm run publint`.
 */
import { execFileSync } from "node:child_process"
import { readdirSync, readFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { publint } from "publint"
import { formatMessage } from "publint/utils"
import * as Metadata from "./metadata.ts"

const root = join(import.meta.dirname, "..", "packages")
const allowed =
  /^(?:(?:dist|src)\/.+(?:\.ts|\.js|\.map)|src\/ops\/page\/status\.css|src\/ops\/page\/index\.html|schema\/.+\.schema\.json|package\.json|LICENSE|README\.md|CHANGELOG\.md)$/
let problems = 0

for (const name of readdirSync(root).toSorted()) {
  const pkgDir = join(root, name)
  const pkg: Record<string, unknown> = JSON.parse(readFileSync(join(pkgDir, "package.json"), "utf8"))
  const packed: ReadonlyArray<{ readonly files: ReadonlyArray<{ readonly path: string }> }> = JSON.parse(
    execFileSync("npm", ["pack", "--dry-run", "--json"], { cwd: pkgDir, encoding: "utf8" })
  )
  const files = packed.flatMap((pack) => pack.files.map((file) => file.path))
  // A chunk that only exports has no map.
  const chunks = files.filter(
    (file) =>
      /^dist\/chunks\/(?!rolldown-runtime).*\.js$/.test(file) &&
      readFileSync(join(pkgDir, file), "utf8").includes("//# sourceMappingURL=")
  )
  const isMapped = (chunk: string): boolean => {
    const file = `${chunk}.map`
    if (!files.includes(file)) return false
    const { sources }: { readonly sources: ReadonlyArray<string> } = JSON.parse(
      readFileSync(join(pkgDir, file), "utf8")
    )
    return sources.length > 0 && sources.every((source) => files.includes(join(dirname(file), source)))
  }
  const { messages } = await publint({ pkgDir, strict: true })
  const found = [
    ...Metadata.problemsOf(`packages/${name}`),
    ...messages.map((message) => formatMessage(message, pkg, { color: false }) ?? message.code),
    ...files.filter((file) => !allowed.test(file)).map((file) => `${file} must not be published.`),
    ...chunks.filter((file) => !isMapped(file)).map((file) => `${file} has no map to published sources.`),
    ...(chunks.length === 0 ? ["No chunk has a map."] : [])
  ]
  problems += found.length
  console.log(`${String(pkg["name"])}: ${found.length === 0 ? `good, ${files.length} files` : "not ready"}`)
  for (const line of found) console.error(`  ${line}`)
}

if (problems > 0) process.exitCode = 1
