/**
 * Gateways of others, as `gateway.ts` asks them. Portkey's is a dependency of the benches. 9router takes 61 MB and is
 * measured where it is installed:
 *
 *     npm install --prefix .cache/gateways --ignore-scripts 9router@0.5.69
 */
import type { ChildProcess } from "node:child_process"
import { fork } from "node:child_process"
import { existsSync, mkdtempSync } from "node:fs"
import { tmpdir } from "node:os"
import { fileURLToPath } from "node:url"
import { join } from "node:path"

export interface Peer {
  readonly program: ChildProcess
  readonly url: string
  readonly model: string
  readonly headers: Readonly<Record<string, string>>
}

const meter = new URL("./gatewayMeter.ts", import.meta.url).href

/** Starts a program that listens on `port`, and waits until it answers. */
const started = async (
  file: string,
  args: ReadonlyArray<string>,
  port: number,
  env: Readonly<Record<string, string>>
): Promise<ChildProcess> => {
  const program = fork(file, args, {
    stdio: "ignore",
    execArgv: ["--import", meter],
    env: { ...process.env, NODE_ENV: "production", ...env }
  })
  for (let i = 0; i < 400; i++) {
    const isUp = await fetch(`http://127.0.0.1:${port}`, { redirect: "manual" }).then(
      () => true,
      () => false
    )
    if (isUp) return program
    await new Promise((resume) => setTimeout(resume, 50))
  }
  program.kill()
  throw new Error(`${file} did not start.`)
}

export const portkey = async (vendor: string, port: number): Promise<Peer> => {
  const file = fileURLToPath(
    new URL("./node_modules/@portkey-ai/gateway/build/start-server.js", import.meta.url)
  )
  const program = await started(file, [`--port=${port}`, "--headless"], port, {})
  const target = { provider: "openai", api_key: "secret", custom_host: `${vendor}/v1` }
  const config = { strategy: { mode: "fallback" }, targets: [target, target] }
  return {
    program,
    url: `http://127.0.0.1:${port}`,
    model: "m",
    headers: { "x-portkey-config": JSON.stringify(config) }
  }
}

const app = fileURLToPath(new URL("../.cache/gateways/node_modules/9router/app", import.meta.url))

export const hasNineRouter = existsSync(app)

/** Signs in as its own page does, and adds the vendor, a key of the vendor, and a key of its own. */
export const nineRouter = async (vendor: string, port: number): Promise<Peer> => {
  const home = mkdtempSync(join(tmpdir(), "bench-9router-"))
  const password = "bench-password-1"
  const program = await started(join(app, "custom-server.js"), [], port, {
    HOME: home,
    DATA_DIR: home,
    PORT: String(port),
    HOSTNAME: "127.0.0.1",
    INITIAL_PASSWORD: password
  })
  const url = `http://127.0.0.1:${port}`
  let cookie = ""
  const post = async (path: string, body: object) => {
    const response = await fetch(`${url}/api/${path}`, {
      method: "POST",
      headers: { "content-type": "application/json", cookie },
      body: JSON.stringify(body)
    })
    cookie ||= response.headers.get("set-cookie")?.split(";")[0] ?? ""
    // The names that its own page reads.
    return (await response.json()) as { readonly node?: { readonly id: string }; readonly key?: string }
  }
  await post("auth/login", { password })
  const { node } = await post("provider-nodes", {
    name: "bench",
    prefix: "bench",
    apiType: "chat",
    type: "openai-compatible",
    baseUrl: `${vendor}/v1`
  })
  await post("providers", { provider: node?.id, name: "one", apiKey: "secret", priority: 1 })
  const { key } = await post("keys", { name: "bench" })
  return { program, url, model: "bench/m", headers: { authorization: `Bearer ${key}` } }
}
