/** Runs the command line like a user, in a separate process. */
import { execFileSync, spawn } from "node:child_process"
import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import * as Programs from "../../../test/programs.ts"

/** The command bundled with all that it imports, which starts in half the time. */
export const main = Programs.bundled(new URL("../src/program.ts", import.meta.url))

/** The command as users install it: it shares Effect and our packages with the modules that it loads. */
export const installedMain = fileURLToPath(new URL("../dist/main.js", import.meta.url))

export interface Run {
  readonly exitCode: number | null
  readonly stdout: string
  readonly stderr: string
  /** Standard output and standard error, in the order of arrival. */
  readonly all: string
}

export interface Options {
  /** Standard input of the process. */
  readonly input?: string
  /** The environment of the process, in addition to PATH and the compile cache. */
  readonly env?: Readonly<Record<string, string>>
}

const start = (
  file: string,
  args: ReadonlyArray<string>,
  { input = "", env = {} }: Options = {}
): Promise<Run> =>
  new Promise((resolve) => {
    const child = spawn(process.execPath, [file, ...args], {
      env: { PATH: process.env["PATH"], NODE_COMPILE_CACHE: process.env["NODE_COMPILE_CACHE"], ...env }
    })
    let stdout = ""
    let stderr = ""
    let all = ""
    child.stdout.on("data", (chunk) => {
      stdout += chunk
      all += chunk
    })
    child.stderr.on("data", (chunk) => {
      stderr += chunk
      all += chunk
    })
    child.on("close", (exitCode) => resolve({ exitCode, stdout, stderr, all }))
    child.stdin.end(input)
  })

export const outlast = (args: ReadonlyArray<string>, options?: Options): Promise<Run> =>
  start(main, args, options)

/** For commands that load modules of users. */
export const installed = (args: ReadonlyArray<string>, options?: Options): Promise<Run> =>
  start(installedMain, args, options)

/** Returns the output of a run, line by line. */
export const linesOf = ({ stdout }: Run): ReadonlyArray<string> => stdout.trimEnd().split("\n")

/** Runs the command with a named pipe as its last argument, which delivers these lines. */
export const piped = async (args: ReadonlyArray<string>, lines: ReadonlyArray<unknown>): Promise<Run> => {
  const folder = await mkdtemp(join(tmpdir(), "outlast-pipe-"))
  const pipe = join(folder, "pipe")
  execFileSync("mkfifo", [pipe])
  const text = lines.map((line) => `${JSON.stringify(line)}\n`).join("")
  const [run] = await Promise.all([outlast([...args, pipe]), writeFile(pipe, text)])
  await rm(folder, { recursive: true })
  return run
}
