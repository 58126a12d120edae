#!/usr/bin/env python3
"""The page of `tandem serve` in a real browser: speaks, hears, compares, clones, watches a live run and stops it.

    page.py PROGRAM [--screenshots FOLDER]

Trains two small voices, starts the server, and clicks through the page in headless Chromium. Needs Debian's chromium,
chromium-driver and python3-selenium, which nothing else in Tandem does: where one is missing the exit code is 77.
"""
import argparse
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
import test_serve
from tones import RATE, make_tone, write_wav

try:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import Select, WebDriverWait
except ImportError as missing:
    print(f"skipped: {missing}; install python3-selenium")
    sys.exit(77)

DRIVER = "/usr/bin/chromedriver"


class Page:
    """A browser that shows the page."""

    def __init__(self, port, folder):
        options = webdriver.ChromeOptions()
        for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu",
                         "--autoplay-policy=no-user-gesture-required", "--use-fake-device-for-media-stream",
                         "--use-fake-ui-for-media-stream", f"--user-data-dir={folder}/profile"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(service=Service(DRIVER), options=options)
        self.url = f"http://127.0.0.1:{port}/"

    def open(self, width=1000, height=900):
        self.driver.set_window_size(width, height)
        self.driver.get(self.url)

    def find(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def click(self, selector):
        self.find(selector).click()

    def until(self, what, test, seconds=60):
        WebDriverWait(self.driver, seconds).until(lambda _: test(), f"{what}; the page says: {self.said()}")

    def said(self):
        return self.driver.execute_script("return ['state', 'clone-state', 'run-state']"
                                          ".map((id) => document.getElementById(id).textContent).join(' | ')")

    def count(self, selector):
        return len(self.driver.find_elements(By.CSS_SELECTOR, selector))

    def check_sound(self, selector):
        """The audio element has a duration and no error."""
        script = f"const a = document.querySelector('{selector}'); return a && [a.duration, a.error && a.error.code]"
        self.until(f"{selector} has a duration or an error", lambda: any(self.driver.execute_script(script) or []))
        duration, error = self.driver.execute_script(script)
        assert error is None and duration > 0.1, (selector, duration, error)

    def set_dark(self, is_dark):
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [
            {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}]})

    def check_width(self, width):
        """Nothing sticks out at the side."""
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                    {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False})
        assert self.driver.execute_script("return document.documentElement.scrollWidth") <= width


def speak(page):
    page.until("voices are listed", lambda: page.count("#voice option") > 0)
    text = page.find("#text")
    text.clear()
    text.send_keys("Say a now. Say b now.")
    text.send_keys(Keys.CONTROL, Keys.ENTER)  # by the keyboard alone
    page.until("something was said", lambda: page.count("#said audio") == 1)
    page.check_sound("#said audio")
    assert "First sound after" in page.find("#state").text
    page.until("its sound is over", lambda: not page.find("#stop").is_enabled())
    Select(page.find("#other")).select_by_visible_text("anna")
    page.click("#speak")
    page.until("both were said", lambda: page.count("#said audio") == 3)
    Select(page.find("#other")).select_by_visible_text("nothing")


def clone(page, folder):
    sample = os.path.join(folder, "sample.wav")
    write_wav(sample, make_tone(3, 2 * RATE))
    page.find("#tab-speak").send_keys(Keys.ARROW_RIGHT)
    page.until("the form is shown", lambda: page.find("#clone-name").is_displayed())
    page.find("#clone-name").send_keys("ben")
    page.find("#clone-file").send_keys(sample)
    page.click("#consent")
    page.click("#clone")
    page.until("ben is there", lambda: page.count("#brought li") == 1)
    page.click("#record")  # the browser's own false microphone beeps
    page.until("it records", lambda: "End" in page.find("#record").text)
    assert not page.find("#clone-heard").is_displayed()  # the file is not meant any more
    page.driver.execute_async_script("setTimeout(arguments[0], 2500)")
    page.click("#record")
    page.check_sound("#clone-heard")
    page.find("#clone-name").clear()
    page.find("#clone-name").send_keys("microphone")
    page.click("#clone")
    page.until("the microphone is there", lambda: page.count("#brought li") == 2)
    page.click("#tab-speak")
    assert Select(page.find("#voice")).first_selected_option.text == "microphone"
    page.click("#speak")
    page.until("the clone has spoken", lambda: page.count("#said audio") == 4)
    page.check_sound("#said audio")
    page.click("#tab-clone")
    page.click("#brought button")
    page.until("one is gone", lambda: page.count("#brought li") == 1)


def watch(page, live):
    page.click("#tab-runs")
    page.until("the run is listed", lambda: "live" in page.find("#run").text)
    page.until("curves are drawn", lambda: page.count("#curves svg path") >= 3)
    step = "return Number(document.querySelector('#figures b').textContent)"  # at once: the page draws it anew
    first = page.driver.execute_script(step)
    page.until("it goes on", lambda: page.driver.execute_script(step) > first)
    page.click("#run-sample")
    page.until("samples are shown", lambda: page.count("#samples img") > 0 and page.count("#samples audio") > 0)
    page.check_sound("#samples audio")
    page.click("#run-stop")
    page.until("it has stopped", lambda: "Ended" in page.find("#run-state").text)
    assert live.wait(60) == 0
    assert not page.find("#run-stop").is_enabled()


def check_keyboard(page):
    """The Tab key reaches every control that is shown, and the browser marks where it is."""
    step = ("const at = document.activeElement;"  # players mark their buttons by themselves
            "at.dataset.reached = at.tagName === 'AUDIO' ? 'inside' : getComputedStyle(at).outlineStyle;"
            "return [...document.querySelectorAll('button, input, select, textarea, audio, summary')]"
            ".filter((e) => e.checkVisibility() && !e.disabled && e.tabIndex >= 0 && (e.dataset.reached || 'none') === 'none')"
            ".map((e) => e.outerHTML)")
    for tab in ("speak", "clone", "runs"):
        page.click("#tab-" + tab)
        for _ in range(200):
            ActionChains(page.driver).send_keys(Keys.TAB).perform()
            left = page.driver.execute_script(step)  # not reached, or without a mark
            if not left:
                break
        assert not left, left


def take_pictures(page, folder):
    for name, tab, is_dark, width in (("speak", "speak", False, 1000), ("clone-dark", "clone", True, 1000),
                                      ("runs", "runs", False, 1000), ("speak-400-dark", "speak", True, 400),
                                      ("clone-400", "clone", False, 400), ("runs-400", "runs", False, 400)):
        page.set_dark(is_dark)
        page.check_width(width)
        page.click("#tab-" + tab)
        page.driver.execute_async_script("setTimeout(arguments[0], 800)")
        page.check_width(width)
        if folder:
            page.driver.save_screenshot(os.path.join(folder, name + ".png"))


def click_through(page, folder, live, screenshots):
    page.open()
    page.set_dark(False)
    speak(page)
    clone(page, folder)
    watch(page, live)
    check_keyboard(page)
    take_pictures(page, screenshots)
    severe = [entry["message"] for entry in page.driver.get_log("browser") if entry["level"] == "SEVERE"]
    assert not severe, severe


def run(folder, screenshots):
    voice = test_serve.train(folder, "encoder", "--set", "model.speaker_encoder=true")
    plain = test_serve.train(folder)
    runs = os.path.join(folder, "runs")
    server = test_serve.Server(plain, "--voice", f"encoder={voice}", "--voices-dir", os.path.join(folder, "voices"),
                               "--runs", runs)
    live = subprocess.Popen(test_serve.train_command(folder, os.path.join(runs, "live"), "--max-steps", "1000000",
                                                     "--val-fraction", "0.3", "--val-every", "50", "--log-every", "5"),
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    page = None
    try:
        server.await_voices()
        page = Page(server.port, folder)
        click_through(page, folder, live, screenshots)
    finally:
        if page:
            page.driver.quit()
        live.kill()
        live.wait()
        server.end()
    print("the page speaks, compares, clones, records, removes, watches a run and stops it")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--screenshots")
    arguments = parser.parse_args()
    if not os.path.exists(DRIVER):
        print(f"skipped: there is no {DRIVER}; install chromium-driver")
        return 77
    test_serve.PROGRAM = os.path.abspath(arguments.program)
    if arguments.screenshots:
        os.makedirs(arguments.screenshots, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tandem-page-") as folder:
        run(folder, arguments.screenshots)
    return 0


if __name__ == "__main__":
    sys.exit(main())
