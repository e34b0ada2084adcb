// The status page. It reads `/events` to know that something happened, and `/api/state` for what is so now. It runs as it
// is: no build step.
import { headers, onAction, requestLimit } from "./actions.js"
import { definitions, tickBars } from "./charts.js"
import { at, focusOn, tickTimes } from "./elements.js"
import { renderHeadline, showGone } from "./headline.js"
import { page } from "./page.js"
import { renderSections } from "./sections.js"
import { seconds } from "./words.js"

/** Milliseconds between an event and the next look at the state. */
const patience = 200
/** Milliseconds between two looks without an event: some sections change on their own. */
const pause = 5_000
/** Milliseconds without a byte after which the connection counts as lost. The server sends something every 5 s. */
const silence = 15_000
/** Milliseconds without a connection after which the program counts as gone. A new token makes a new connection. */
const goneAfter = 1_500

let lastId = ""
let loadedAt = 0
let heardAt = 0
let lostAt = 0
let isConnected = false
/** The last token was wrong: the page says so until the next one. */
let wasRefused = false
/** @type {AbortController | undefined} */
let reading
/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer

/** @param {number} millis */
const sleep = (millis) => new Promise((resolve) => setTimeout(resolve, millis))

const render = () => {
  const { state } = page
  if (state === undefined) return
  const { headline, name, version } = state
  document.title = `${headline.level === "good" ? "" : headline.level === "warn" ? "! " : "✗ "}${name}`
  at("name").textContent = `${name} ${version}`
  renderHeadline()
  renderSections()
}

const load = async () => {
  timer = undefined
  const response = await fetch("api/state", { headers: headers(), signal: AbortSignal.timeout(requestLimit) })
  if (response.status === 401) return askForToken()
  if (!response.ok) throw new Error(`The server answered ${response.status}.`)
  const next = await response.json()
  page.offset = next.at - Date.now()
  page.state = next
  loadedAt = Date.now()
  const access = at("access")
  const isDone = page.token !== "" && !access.hidden
  if (isDone) at("message").textContent = "The actions of operators are on."
  if (isDone && access.contains(document.activeElement)) focusOn("", at("main"))
  access.hidden = page.token !== "" || next.actions.length === 0
  if (!wasRefused) at("access-note").textContent = "The token turns the actions of operators on."
  render()
  tick()
}

/** Looks again soon, however many events arrive until then. */
const loadSoon = () => {
  timer ??= setTimeout(() => load().catch(() => reading?.abort()), patience)
}

const askForToken = () => {
  at("access").hidden = false
  wasRefused ||= page.token !== ""
  at("access-note").textContent = wasRefused
    ? "The token was refused."
    : "This page needs the token of operators."
  page.token = ""
}

/** Reads frames until the connection ends. */
const follow = async () => {
  reading = new AbortController()
  const response = await fetch("events", {
    headers: { ...headers(), ...(lastId === "" ? {} : { "last-event-id": lastId }) },
    signal: reading.signal,
    cache: "no-store"
  })
  heardAt = Date.now()
  if (response.status === 401) return askForToken()
  if (!response.ok || response.body === null) throw new Error(`The server answered ${response.status}.`)
  await load()
  isConnected = true
  tick()
  let rest = ""
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader()
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return
    heardAt = Date.now()
    const lines = (rest + value).split("\n")
    rest = lines.pop() ?? ""
    for (const line of lines) {
      if (line.startsWith("id: ")) lastId = line.slice(4)
      if (line.startsWith("event: ") && line !== "event: hello") loadSoon()
    }
  }
}

const connect = async () => {
  for (let delay = 500; ; delay = Math.min(5_000, delay * 2)) {
    const start = Date.now()
    await follow().catch(() => {})
    if (isConnected) lostAt = Date.now()
    isConnected = false
    tick()
    if (Date.now() - start > 10_000) delay = 500
    await sleep(delay)
  }
}

const tick = () => {
  const connection = at("connection")
  const word = isConnected ? "live" : loadedAt === 0 ? "connecting" : "connection lost, trying again"
  if (connection.textContent !== word) {
    connection.textContent = word
    connection.className = isConnected ? "weak" : "bad"
  }
  const isGone = !isConnected && loadedAt !== 0 && Date.now() - lostAt > goneAfter
  showGone(isGone, loadedAt)
  // The times of a program that is gone would run on.
  if (!isGone) {
    tickTimes()
    tickBars()
  }
  at("age").textContent = loadedAt === 0 ? "" : `last update ${seconds(Date.now() - loadedAt)} ago`
  if (isConnected && Date.now() - heardAt > silence) reading?.abort()
  if (isConnected && Date.now() - loadedAt > pause) loadSoon()
}

onAction({ changed: loadSoon, refused: askForToken })

at("access").addEventListener("submit", (event) => {
  event.preventDefault()
  const field = at("token")
  if (!(field instanceof HTMLInputElement)) return
  page.token = field.value
  wasRefused = false
  field.value = ""
  reading?.abort()
  loadSoon()
})

document.body.append(definitions())
setInterval(tick, 1_000)
void connect()
