// Starts the page: the theme chosen before, the live stream, the router.
import { render } from 'preact';
import { App } from './app';
import { startLive } from './live';
import './style.css';

const theme = localStorage.getItem('theme');
if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
startLive();
render(<App />, document.getElementById('app')!);
