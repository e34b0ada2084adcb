/** Temporary file systems: small ones that get full, and read-only ones. Only root can mount them. */
import { Effect } from "effect"
import type { Scope } from "effect"
import { execFileSync } from "node:child_process"
import { mkdtempSync, rmdirSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

const newFolder = () => mkdtempSync(join(tmpdir(), "outlast-mount-"))
const mount = (...args: ReadonlyArray<string>) => execFileSync("mount", args, { stdio: "ignore" })
const unmount = (folder: string) => {
  execFileSync("umount", ["--lazy", folder], { stdio: "ignore" })
  rmdirSync(folder)
}

/** Reason why the tests with mounts are skipped. */
export const missing: string | undefined = (() => {
  const folder = newFolder()
  try {
    mount("-t", "tmpfs", "tmpfs", folder)
  } catch {
    rmdirSync(folder)
    const why = "no file system can be mounted here"
    console.log(`Skipped: ${why}.`)
    return why
  }
  unmount(folder)
  return undefined
})()

/** A folder on an in-memory file system of at most `size`, for example `1m`. */
export const tmpfs = (size: string): Effect.Effect<string, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const folder = newFolder()
      mount("-t", "tmpfs", "-o", `size=${size}`, "tmpfs", folder)
      return folder
    }),
    (folder) => Effect.sync(() => unmount(folder))
  )

/** Makes a mounted folder read-only. Nothing in it may be open for writing. */
export const readOnly = (folder: string): Effect.Effect<void> =>
  Effect.sync(() => void mount("-o", "remount,ro", folder))

/** Shows the file `source` at `target`, an existing file. The target is writable, even in a read-only folder. */
export const bindFile = (source: string, target: string): Effect.Effect<void, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.sync(() => void mount("--bind", source, target)),
    () => Effect.sync(() => void execFileSync("umount", ["--lazy", target], { stdio: "ignore" }))
  )
