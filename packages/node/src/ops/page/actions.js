// Actions of operators: each button says what will happen, and one that hurts asks first.
import { at, element, focusOn, replaced } from "./elements.js"
import { page } from "./page.js"

/**
 * What a button does.
 * @typedef {object} Doing
 * @property {string} text The button.
 * @property {string} action
 * @property {unknown} params
 * @property {string} done What has happened then.
 * @property {string} [ask] What will happen, and to whom: asked before.
 * @property {Doing} [undo]
 */

/** Milliseconds after which a request counts as lost. */
export const requestLimit = 5_000

const handlers = { refused: () => {}, changed: () => {} }

/** Who is told of a refused token, and of a change. @param {Partial<typeof handlers>} given */
export const onAction = (given) => Object.assign(handlers, given)

export const headers = () => (page.token === "" ? {} : { authorization: `Bearer ${page.token}` })

/** A button, where the program has the action and the operator has given a token. @param {string} key @param {Doing} doing */
export const button = (key, doing) => {
  if (page.token === "" || page.state?.actions.some(({ name }) => name === doing.action) !== true)
    return undefined
  const made = element(
    "button",
    { type: "button", "data-key": key, title: doing.ask },
    doing.ask === undefined ? doing.text : `${doing.text}…`
  )
  made.addEventListener("click", () => start(key, doing))
  return made
}

/** @param {string} key @param {Doing} doing */
const start = (key, doing) => {
  if (doing.ask === undefined) return void act(doing)
  const dialog = at("ask")
  if (!(dialog instanceof HTMLDialogElement)) return
  at("ask-what").textContent = doing.ask
  at("ask-yes").textContent = doing.text
  dialog.returnValue = "no"
  const place = document.activeElement?.closest("ul")
  const ended = () => {
    // The button may have been drawn again meanwhile.
    if (place) focusOn(key, place)
    if (dialog.returnValue === "yes") void act(doing)
  }
  dialog.addEventListener("close", ended, { once: true })
  dialog.showModal()
}

/** @param {Doing} doing */
const act = async ({ action, done, params, undo }) => {
  const say = (/** @type {(string | Node)[]} */ ...parts) => replaced(at("message"), parts)
  try {
    const response = await fetch(`api/actions/${action}`, {
      method: "POST",
      headers: { ...headers(), "content-type": "application/json" },
      body: JSON.stringify(params),
      signal: AbortSignal.timeout(requestLimit)
    })
    const { error } = await response.json()
    if (response.status === 401) handlers.refused()
    const back = undo === undefined || error !== undefined ? undefined : button("undo", undo)
    say(error ?? `Done: ${done}. `, ...(back === undefined ? [] : [back]))
  } catch {
    say("The action was not answered. Look whether it was carried out.")
  }
  handlers.changed()
}
