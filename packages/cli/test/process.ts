/** The command line as a person runs it: a process of its own. */
import { execFileSync, spawn } from "node:child_process"
import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"

const main = fileURLToPath(new URL("../src/main.ts", import.meta.url))

export interface Run {
  readonly exitCode: number | null
  readonly stdout: string
  readonly stderr: string
  /** Both, as they came. */
  readonly all: string
}

export interface Options {
  /** What it reads from standard input. */
  readonly input?: string
  /** All of its environment, beside PATH. */
  readonly env?: Readonly<Record<string, string>>
}

export const outlast = (args: ReadonlyArray<string>, { input = "", env = {} }: Options = {}): Promise<Run> =>
  new Promise((resolve) => {
    const child = spawn(process.execPath, ["--conditions=@outlast/source", main, ...args], {
      env: { PATH: process.env["PATH"], ...env }
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

/** What a run printed, line by line. */
export const linesOf = ({ stdout }: Run): ReadonlyArray<string> => stdout.trimEnd().split("\n")

/** With the name of a pipe behind its arguments, through which these lines come. */
export const piped = async (args: ReadonlyArray<string>, lines: ReadonlyArray<unknown>): Promise<Run> => {
  const folder = await mkdtemp(join(tmpdir(), "outlast-pipe-"))
  const pipe = join(folder, "pipe")
  execFileSync("mkfifo", [pipe])
  const text = lines.map((line) => `${JSON.stringify(line)}\n`).join("")
  const [run] = await Promise.all([outlast([...args, pipe]), writeFile(pipe, text)])
  await rm(folder, { recursive: true })
  return run
}
