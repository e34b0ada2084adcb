/** Runs the command line in a pseudo-terminal, by `script`, which every Linux and macOS has. */
import { spawn } from "node:child_process"
import { main } from "../process.ts"

/** A prompt at the start of a line. The editor also draws it again while a line is typed. */
// oxlint-disable-next-line no-control-regex -- codes of a terminal
const promptLine = /\r?\n\u001b\[1G\u001b\[0JYou > /
// oxlint-disable-next-line no-control-regex -- codes of a terminal
const codes = /\u001b\[[0-9;]*[A-Za-z]/g

export interface TerminalChat {
  /** Types a line, and returns what is shown until the next prompt, without colours. */
  readonly type: (line: string) => Promise<string>
  /** Sends keys as they are. */
  readonly press: (keys: string) => void
  /** Returns what is shown until the text matches. */
  readonly until: (text: RegExp) => Promise<string>
  /** Resolves when the process has ended. */
  readonly exitCode: Promise<number | null>
  readonly kill: () => void
}

const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`

/** Starts `outlast chat` and waits for its first prompt. */
export const open = async (
  args: ReadonlyArray<string>,
  env: Readonly<Record<string, string>> = {}
): Promise<TerminalChat> => {
  const command = [process.execPath, main, "chat", ...args]
  const script =
    process.platform === "darwin"
      ? ["-q", "/dev/null", ...command]
      : ["--quiet", "--flush", "--return", "--command", command.map(quoted).join(" "), "/dev/null"]
  const child = spawn("script", script, {
    stdio: ["pipe", "pipe", "inherit"],
    env: {
      PATH: process.env["PATH"],
      NODE_COMPILE_CACHE: process.env["NODE_COMPILE_CACHE"],
      TERM: "xterm",
      SHELL: "/bin/sh",
      ...env
    }
  })
  const exitCode = new Promise<number | null>((resolve, reject) => {
    child.on("error", reject)
    child.on("close", resolve)
  })
  let shown = ""
  let check = () => {}
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => {
    shown += chunk
    check()
  })
  const until = (text: RegExp) =>
    new Promise<string>((resolve, reject) => {
      check = () => {
        const found = text.exec(shown)
        if (found === null) return
        check = () => {}
        const end = found.index + found[0].length
        const before = shown.slice(0, end)
        shown = shown.slice(end)
        resolve(before.replaceAll(codes, "").replaceAll("\r", ""))
      }
      exitCode.then(() => reject(new Error(`The chat ended. It showed: ${shown}`)), reject)
      check()
    })
  await until(promptLine)
  return {
    type: (line) => {
      child.stdin.write(`${line}\r`)
      // An event that comes while nothing is typed draws the prompt again, before the line.
      const echo = line.replaceAll(/[^\w ]/g, "\\$&")
      return until(new RegExp(`${echo}[\r\n]+[^]*?${promptLine.source}`))
    },
    press: (keys) => void child.stdin.write(keys),
    until,
    exitCode,
    kill: () => void child.kill("SIGKILL")
  }
}
