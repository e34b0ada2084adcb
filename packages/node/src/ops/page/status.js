// The status page. It reads `/events` to know that something happened, and `/api/state` for what is so now. Texts are
// set as text, never as markup. It runs as it is: no build step.

/** Rows of one list. */
const maxRows = 50
/** Milliseconds between an event and the next look at the state. */
const patience = 200
/** Milliseconds between two looks without an event: some sections change on their own. */
const pause = 5_000
/** Milliseconds without a byte after which the connection counts as lost. The server sends something every 5 s. */
const silence = 15_000

const at = (id) => document.getElementById(id)

let token = ""
let lastId = ""
let state
/** What this clock is behind that of the server. */
let offset = 0
let loadedAt = 0
let heardAt = 0
let isConnected = false
let reading
let timer

const now = () => Date.now() + offset

// -----------------------------------------------------------------------------
// Words
// -----------------------------------------------------------------------------

const seconds = (millis) => {
  const s = Math.max(0, millis) / 1000
  if (s < 10) return `${s.toFixed(1)} s`
  if (s < 120) return `${Math.round(s)} s`
  return s < 7200 ? `${Math.round(s / 60)} min` : `${Math.round(s / 3600)} h`
}

const waitWords = {
  backoff: "before it asks the same target again",
  cooldown: "because all targets are out",
  circuit: "for a circuit to let a probe through",
  limit: "for its turn within the known limits",
  health: "for a health check",
  key: "for a key to be refreshed",
  budget: "for the retry budget"
}

const colours = {
  answered: "good",
  recovered: "good",
  ready: "good",
  closed: "good",
  completed: "good",
  Done: "good",
  empty: "good",
  stored: "busy",
  replayed: "weak",
  running: "busy",
  Running: "busy",
  Queued: "busy",
  Retrying: "busy",
  waiting: "busy",
  retrying: "busy",
  cooling: "busy",
  "half-open": "busy",
  over: "weak",
  note: "weak",
  abandoned: "weak",
  interrupted: "weak"
}

const badge = (word) => element("span", { class: `badge ${colours[word] ?? "bad"}` }, word)

// -----------------------------------------------------------------------------
// Elements
// -----------------------------------------------------------------------------

const element = (name, attributes = {}, ...children) => {
  const made = document.createElement(name)
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== undefined) made.setAttribute(key, value)
  }
  made.append(...children.filter((child) => child !== undefined && child !== ""))
  return made
}

/** Counts down to a time of the server. */
const countdown = (until, before = "", after = "") => {
  if (until === null || until === undefined) return undefined
  const made = element("time", { "data-until": until, "data-before": before, "data-after": after })
  tickOne(made)
  return made
}

/** Counts up from a time of the server. */
const age = (since, before = "", after = "") => {
  const made = element("time", { "data-since": since, "data-before": before, "data-after": after })
  tickOne(made)
  return made
}

const tickOne = (made) => {
  const { after, before, since, until } = made.dataset
  const time = until === undefined ? now() - Number(since) : Number(until) - now()
  made.textContent = until !== undefined && time <= 0 ? `${before}now` : `${before}${seconds(time)}${after}`
}

const row = (...children) => element("div", { class: "row" }, ...children)
const weak = (text) => element("span", { class: "weak" }, text)
const grow = (text) => element("span", { class: "grow" }, text)

/** Rendered data by list, so that a list that is the same is left alone. */
const rendered = new Map()

const list = (id, items, render, empty) => {
  const key = JSON.stringify([items, state.actions.length > 0 && token !== ""])
  if (rendered.get(id) === key) return
  rendered.set(id, key)
  const holder = at(id)
  const open = new Set([...holder.querySelectorAll("details[open]")].map((one) => one.dataset.key))
  const focused = holder.contains(document.activeElement) ? document.activeElement.dataset.key : undefined
  const rows = items.slice(0, maxRows).map((item) => element("li", {}, ...[render(item)].flat()))
  if (items.length === 0) rows.push(element("li", { class: "weak" }, empty))
  if (items.length > maxRows)
    rows.push(element("li", { class: "weak" }, `and ${items.length - maxRows} more`))
  holder.replaceChildren(...rows)
  for (const one of holder.querySelectorAll("details")) one.open = open.has(one.dataset.key)
  if (focused !== undefined) {
    for (const one of holder.querySelectorAll("[data-key]")) if (one.dataset.key === focused) one.focus()
  }
}

const button = (key, text, action, params) => {
  if (token === "" || !state.actions.some(({ name }) => name === action)) return undefined
  const made = element("button", { type: "button", "data-key": key }, text)
  made.addEventListener("click", () => act(action, params))
  return made
}

// -----------------------------------------------------------------------------
// Calls
// -----------------------------------------------------------------------------

const failureOf = ({ reason, status }) =>
  reason === undefined ? "" : `${reason}${status === undefined ? "" : ` (HTTP ${status})`}`

const stepRow = (step) => {
  const time = step.elapsed === undefined ? "" : ` · ${seconds(step.elapsed)}`
  if (step.kind === "note") return element("li", {}, weak(step.text))
  if (step.kind === "wait") {
    const words = `waits ${waitWords[step.reason] ?? step.reason}: ${step.text}${time}`
    return element(
      "li",
      {},
      row(
        badge(step.state === "running" ? "waiting" : "over"),
        grow(words),
        step.state === "running" ? countdown(step.until, "ends in ") : undefined
      )
    )
  }
  return element("li", {}, row(badge(step.state), grow(`${step.text}${time}`), weak(failureOf(step))))
}

/** Why a call is where it is, in one line. */
const whyOf = (call) => {
  const last = call.steps.at(-1)
  const failure = call.steps.findLast((step) => step.kind === "attempt" && step.state === "failed")
  const after = failure === undefined ? "" : `, after ${failureOf(failure)}`
  if (last?.kind === "wait" && last.state === "running") {
    return [
      grow(`waits ${waitWords[last.reason] ?? last.reason}: ${last.text}${after}`),
      countdown(last.until, "ends in ")
    ]
  }
  return [grow(last === undefined ? "has begun" : `asks ${last.text}${after}`)]
}

const wordOf = (call) => {
  if (call.outcome !== "running") return call.outcome
  const last = call.steps.at(-1)
  if (last?.kind === "wait" && last.state === "running") return "waiting"
  return call.attempts > 1 ? "retrying" : "running"
}

const callRow = (call) => {
  const attempts = `${call.attempts} attempt${call.attempts === 1 ? "" : "s"}`
  const key = `call-${call.call}-${call.startedAt}`
  const isOver = call.endedAt !== undefined
  const time = isOver ? weak(seconds(call.endedAt - call.startedAt)) : age(call.startedAt, "for ")
  const why = isOver
    ? [grow(call.message ?? call.steps.findLast(({ kind }) => kind === "attempt")?.text ?? "")]
    : whyOf(call)
  const omitted =
    call.omitted === 0 ? undefined : element("li", { class: "weak" }, `${call.omitted} steps are left out`)
  return element(
    "details",
    { "data-key": key },
    element(
      "summary",
      { "data-key": `${key}-summary` },
      row(badge(wordOf(call)), weak(`call ${call.call}`), weak(attempts), time, ...why)
    ),
    element("ol", {}, ...call.steps.map(stepRow), omitted)
  )
}

// -----------------------------------------------------------------------------
// Sections
// -----------------------------------------------------------------------------

const nothing = {
  running: [],
  recent: [],
  circuits: [],
  cooldowns: [],
  alerts: [],
  minutes: [],
  notices: []
}

/** Sections that have a place of their own on the page. */
const own = new Set(["activity", "targets", "circuits", "tasks", "runs", "outbox", "dead letters"])

const listOf = (value) => (Array.isArray(value) ? value : [])

const targetRow = (target) => {
  const { cooldowns, id, key, lastSuccessAt, message, model, provider, reason, state: word, until } = target
  const scopes = [...new Set(cooldowns.map(({ scope }) => scope))].join(", ")
  const why = word === "ready" ? "" : `${reason ?? ""}${scopes === "" ? "" : ` · ${scopes}`}`
  return row(
    badge(word),
    element(
      "span",
      { class: "grow", title: message ?? undefined },
      `${provider}/${model}${key === "" ? "" : ` · ${key}`}`
    ),
    weak(why),
    word === "ready" ? undefined : (countdown(until, "back in ") ?? weak("until an operator brings it back")),
    lastSuccessAt === null ? weak("no answer yet") : age(lastSuccessAt, "answered ", " ago"),
    word === "ready" ? undefined : button(`lift-${id}`, "Lift", "lift", { target: id })
  )
}

const circuitRow = ({ circuit, lastFailure, phase, until }) =>
  row(
    badge(phase),
    grow(circuit),
    weak(lastFailure ?? ""),
    phase === "closed" ? undefined : countdown(until, "probe in "),
    phase === "closed"
      ? button(`trip-${circuit}`, "Open it", "trip", { circuit })
      : button(`reset-${circuit}`, "Close it", "reset", { circuit })
  )

/** The buttons of a task that waits for a person. A decision names the effect that the person has seen. */
const decisions = ({ calls, decision, effect, task }) => {
  const decide = (key, text, verdict) =>
    button(`${key}-${task}`, text, "decide", { task, key: decision, verdict })
  if (effect !== undefined) {
    return [
      weak(`${effect.tool} ${effect.params} · key ${effect.key}`),
      decide("happened", "It happened", { _tag: "Happened" }),
      decide("did-not", "It did not", { _tag: "DidNot" })
    ]
  }
  if (calls === undefined) return []
  return [
    weak(calls.map(({ params, tool }) => `${tool} ${params}`).join(", ")),
    decide("approve", "Approve", { _tag: "Approved", decisions: calls.map(() => true) }),
    decide("reject", "Reject", { _tag: "Approved", decisions: calls.map(() => false) })
  ]
}

/** The limit that a run will meet first. */
const nearest = (limits) => {
  const [first] = listOf(limits).toSorted((a, b) => b.used / b.of - a.used / a.of)
  return first === undefined
    ? undefined
    : weak(`${Math.round((100 * first.used) / first.of)} % of its limit ${first.limit}`)
}

const taskRow = ({
  calls,
  decision,
  effect,
  endedAt,
  id,
  limits,
  reason,
  startedAt,
  state: word,
  task,
  tools,
  turns,
  until
}) =>
  row(
    badge(word),
    grow(`${id}${reason === undefined || reason === null ? "" : ` · ${reason}`}`),
    turns === undefined ? undefined : weak(`turn ${turns}, ${tools ?? 0} tool calls`),
    nearest(limits),
    countdown(until, "until "),
    startedAt === undefined || startedAt === null
      ? undefined
      : endedAt === undefined || endedAt === null
        ? age(startedAt, "for ")
        : weak(seconds(endedAt - startedAt)),
    ...decisions({ calls, decision, effect, task })
  )

const backlogRow = ({ backlog, bytes, oldestAt }) =>
  row(
    badge(backlog === 0 ? "empty" : "stored"),
    grow(`${backlog} events wait for the broker`),
    weak(`${Math.ceil(bytes / 1024)} KiB`),
    oldestAt === null ? undefined : age(oldestAt, "the oldest for ")
  )

const unreadRow = (error) => row(badge("raised"), grow(`The outbox cannot be read: ${error}`))

const letterRow = ({ detail, died, id, number, reason, state: word, subject }) =>
  row(
    badge(word),
    grow(`${subject} · ${id} · ${reason}: ${detail}`),
    age(Date.parse(died), "", " ago"),
    word === "dead" ? button(`replay-${number}`, "Replay", "replay", { ids: [String(number)] }) : undefined
  )

const minuteRow = ({ answered, at: start, attempts, calls, failed, failedAttempts }) =>
  row(
    element("time", {}, new Date(start).toTimeString().slice(0, 5)),
    grow(`${calls} calls, ${attempts} attempts (${failedAttempts} failed)`),
    weak(`${answered} answered, ${failed} given up`)
  )

const figure = (name, value, colour) => [
  element("dt", {}, name),
  element("dd", { class: colour ?? "" }, value)
]

const render = () => {
  const { name, readiness, sections, status, version } = state
  const activity = { ...nothing, ...sections.activity }
  const tasks = [
    ...listOf(sections.tasks).map((task) => ({ ...task, task: task.id, id: `task ${task.id}` })),
    ...listOf(sections.runs).map((run) => ({ ...run, id: `run ${run.id}` }))
  ]
  const retrying = activity.running.filter((call) => wordOf(call) !== "running").length
  const doubt = tasks.filter(({ state }) => state === "InDoubt").length
  const waiting =
    activity.running.length === 0 ? "0" : `${activity.running.length}, ${retrying} retrying or waiting`
  document.title = `${readiness.isReady ? "" : "not ready · "}${name}`
  at("name").textContent = `${name} ${version}`
  at("summary").replaceChildren(
    ...[
      figure("state", readiness.isReady ? status : "not ready", readiness.isReady ? "good" : "bad"),
      figure("calls", waiting, retrying > 0 ? "busy" : ""),
      figure("attempts per call", activity.amplification?.toFixed(2) ?? "–"),
      figure("answered", activity.goodput === undefined ? "–" : `${Math.round(activity.goodput * 100)} %`),
      figure("in doubt", String(doubt), doubt > 0 ? "bad" : ""),
      figure("alerts", String(activity.alerts.length), activity.alerts.length > 0 ? "bad" : "")
    ].map((pair) => element("div", {}, ...pair))
  )
  const isRead = (section) => section !== undefined && section.error === undefined
  const unread = [sections.outbox, sections["dead letters"]].filter((section) => section?.error !== undefined)
  const outbox = isRead(sections.outbox) ? [{ row: backlogRow, value: sections.outbox }] : []
  const letters = listOf(sections["dead letters"]?.newest)
  const hidden = (sections["dead letters"]?.total ?? 0) - letters.length
  at("has-outbox").hidden = sections.outbox === undefined && sections["dead letters"] === undefined
  list(
    "outbox",
    [
      ...unread.map(({ error }) => ({ row: unreadRow, value: error })),
      ...outbox,
      ...letters.map((value) => ({ row: letterRow, value })),
      ...(hidden > 0 ? [{ row: weak, value: `and ${hidden} more dead letters` }] : [])
    ],
    ({ row, value }) => row(value),
    "No dead letters."
  )
  const reasons = readiness.reasons.map(({ name, reason }) => ({ key: `not ready: ${name}`, text: reason }))
  const alerts = activity.alerts.map(({ failures, key, since }) => ({
    key,
    text: `${failures} failures`,
    since
  }))
  list("running", activity.running, callRow, "No call is under way.")
  list("targets", listOf(sections.targets), targetRow, "The program shows no chain.")
  list("circuits", listOf(sections.circuits ?? activity.circuits), circuitRow, "No circuit is open.")
  list("tasks", tasks, taskRow, "No tasks and no runs.")
  list(
    "alerts",
    [...reasons, ...alerts],
    ({ key, since, text }) =>
      row(badge("raised"), grow(key), weak(text), since === undefined ? undefined : age(since, "for ")),
    "No alert is raised."
  )
  list("minutes", activity.minutes.toReversed(), minuteRow, "No calls yet.")
  list(
    "notices",
    activity.notices,
    ({ at: time, run, text }) =>
      row(age(time, "", " ago"), run === undefined ? undefined : weak(run), grow(text)),
    "Nothing yet."
  )
  list("recent", activity.recent, callRow, "No call has ended yet.")
  const other = Object.entries(sections).filter(([name]) => !own.has(name))
  const key = JSON.stringify(other)
  if (rendered.get("other") !== key) {
    rendered.set("other", key)
    at("more").hidden = other.length === 0
    const open = new Set([...at("other").querySelectorAll("details[open]")].map((one) => one.dataset.key))
    at("other").replaceChildren(
      ...other.map(([name, value]) => {
        const made = element(
          "details",
          { "data-key": name },
          element("summary", {}, name),
          element("pre", {}, JSON.stringify(value, null, 2).slice(0, 20_000))
        )
        made.open = open.has(name)
        return made
      })
    )
  }
}

// -----------------------------------------------------------------------------
// Connection
// -----------------------------------------------------------------------------

const headers = () => (token === "" ? {} : { authorization: `Bearer ${token}` })

const sleep = (millis) => new Promise((resolve) => setTimeout(resolve, millis))

/** Milliseconds after which a request counts as lost. */
const requestLimit = 5_000

const load = async () => {
  timer = undefined
  const response = await fetch("api/state", { headers: headers(), signal: AbortSignal.timeout(requestLimit) })
  if (response.status === 401) return askForToken()
  if (!response.ok) throw new Error(`The server answered ${response.status}.`)
  const next = await response.json()
  offset = next.at - Date.now()
  state = next
  loadedAt = Date.now()
  at("access").hidden = token !== "" || state.actions.length === 0
  at("access-note").textContent = "The token turns the actions of operators on."
  render()
  tick()
}

/** Looks again soon, however many events arrive until then. */
const loadSoon = () => {
  timer ??= setTimeout(() => load().catch(() => reading?.abort()), patience)
}

const askForToken = () => {
  at("access").hidden = false
  at("access-note").textContent =
    token === "" ? "This page needs the token of operators." : "The token was refused."
  token = ""
}

const act = async (action, params) => {
  const say = (text) => (at("message").textContent = text)
  try {
    const response = await fetch(`api/actions/${action}`, {
      method: "POST",
      headers: { ...headers(), "content-type": "application/json" },
      body: JSON.stringify(params),
      signal: AbortSignal.timeout(requestLimit)
    })
    const { error } = await response.json()
    if (response.status === 401) askForToken()
    say(error ?? `Done: ${action}.`)
  } catch {
    say("The action was not answered. Look whether it was carried out.")
  }
  loadSoon()
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
    isConnected = false
    tick()
    if (Date.now() - start > 10_000) delay = 500
    await sleep(delay)
  }
}

const tick = () => {
  for (const one of document.querySelectorAll("time[data-until], time[data-since]")) tickOne(one)
  const connection = at("connection")
  const word = isConnected ? "live" : loadedAt === 0 ? "connecting" : "connection lost, trying again"
  if (connection.textContent !== word) {
    connection.textContent = word
    connection.className = isConnected ? "good" : "bad"
  }
  at("age").textContent = loadedAt === 0 ? "" : `last update ${seconds(Date.now() - loadedAt)} ago`
  if (isConnected && Date.now() - heardAt > silence) reading?.abort()
  if (isConnected && Date.now() - loadedAt > pause) loadSoon()
}

at("access").addEventListener("submit", (event) => {
  event.preventDefault()
  token = at("token").value
  at("token").value = ""
  reading?.abort()
  loadSoon()
})

setInterval(tick, 1_000)
void connect()
