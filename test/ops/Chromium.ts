/** A headless Chromium for tests of the status page. */
import { existsSync } from "node:fs"
import { delimiter, join } from "node:path"
import { Effect } from "effect"
import { chromium } from "playwright-core"

const names = [
  "chromium",
  "chromium-browser",
  "google-chrome",
  "chrome-headless-shell",
  "chromium-headless-shell"
]

/** The program: `CHROMIUM`, or the first on the PATH. */
const program =
  process.env["CHROMIUM"] ??
  (process.env["PATH"] ?? "")
    .split(delimiter)
    .flatMap((folder) => names.map((name) => join(folder, name)))
    .find((path) => existsSync(path))

/** True where tests of the page are skipped. Prints why, or throws where nothing may be skipped. */
export const isMissing = (): boolean => {
  if (program !== undefined) return false
  const why = "Chromium is not on the PATH: the status page is not tested in a browser"
  if (process.env["OUTLAST_REQUIRE_SERVICES"] === "1")
    throw new Error(`${why}, and OUTLAST_REQUIRE_SERVICES=1`)
  console.warn(`${why}.`)
  return true
}

/** Starts a browser, which ends with the scope. */
export const launch = Effect.acquireRelease(
  Effect.promise(() =>
    chromium.launch({
      ...(program === undefined ? {} : { executablePath: program }),
      args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    })
  ),
  (browser) => Effect.promise(() => browser.close())
)
