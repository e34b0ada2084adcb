/** What holds for the status page in every situation: it can be used without eyes or a mouse, and it fits every screen. */
import { assert } from "@effect/vitest"
import axe from "axe-core"
import type { Page } from "playwright-core"

export const themes = ["light", "dark"] as const

/** Pixels: a phone, a tablet, a laptop, a large screen. */
const widths = [360, 768, 1_280, 1_920] as const

/** Asserts that axe finds nothing on the page as it is, in both themes. */
export const isAccessible = async (page: Page): Promise<void> => {
  // The policy of the page allows no script of a test, and those of a debugger pass it.
  await page.evaluate(axe.source)
  for (const colorScheme of themes) {
    await page.emulateMedia({ colorScheme })
    const found: ReadonlyArray<string> = await page.evaluate(`axe.run().then(({ violations }) =>
      violations.map(({ id, impact, nodes }) => impact + " " + id + " at " + nodes.map(({ target }) => target).join(", ")))`)
    assert.deepStrictEqual(found, [], colorScheme)
  }
}

/** Elements whose content is cut off, or that stand out of the screen. A picture is as large as its place. */
const misfits = `[...document.querySelectorAll("body *:not(svg *):not(#said)")].flatMap((one) => {
  const { overflowX, overflowY, textOverflow } = getComputedStyle(one)
  const box = one.getBoundingClientRect()
  const isCut =
    (overflowX !== "visible" && one.scrollWidth > one.clientWidth + 1 && textOverflow !== "ellipsis") ||
    (overflowY !== "visible" && one.scrollHeight > one.clientHeight + 1)
  const isOut = box.width > 0 && (box.left < -1 || box.right > innerWidth + 1)
  return one.tagName !== "svg" && (isCut || isOut)
    ? [one.tagName + "#" + one.id + "." + one.className + ": " + one.textContent.slice(0, 60)]
    : []
})`

/** Asserts that nothing is cut off, and that no screen scrolls to the side. */
export const fits = async (page: Page): Promise<void> => {
  for (const width of widths) {
    await page.setViewportSize({ width, height: 740 })
    assert.deepStrictEqual(await page.evaluate(misfits), [], `${width} px`)
    assert.strictEqual(await page.evaluate("document.documentElement.scrollWidth"), width)
  }
}

/** Opens everything that opens with a click. */
export const openAll = (page: Page): Promise<unknown> =>
  page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true })")
